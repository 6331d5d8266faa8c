//! Passes the interpreter's version and build to the code as cfgs (`Py_3_13`, `Py_GIL_DISABLED`…).

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    // lld packs segments so that addresses and file offsets differ. libunwind, with which py-spy reads native frames,
    // then fails in this library. GNU ld does not do that and ignores the option.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,separate-loadable-segments");
}
