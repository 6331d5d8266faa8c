//! Passes the interpreter's version and build (`Py_3_13`, `Py_GIL_DISABLED`…) on as cfgs.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    // lld packs segments so that addresses and file offsets differ, and libunwind, by which py-spy reads native frames,
    // then loses its way in this library. GNU ld does not do that, and ignores the option.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,separate-loadable-segments");
}
