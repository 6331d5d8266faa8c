//! Passes the interpreter's version and build (`Py_3_13`, `Py_GIL_DISABLED`…) to the code as cfgs, and options to the linker.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let is_zig = std::env::var("RUSTC_LINKER").is_ok_and(|linker| linker.contains("zigcc"));
    if is_zig {
        // Debuggers find separate debug symbols by the build ID.
        println!("cargo:rustc-cdylib-link-arg=-Wl,--build-id=sha1");
    } else {
        // lld packs segments so that addresses and file offsets differ, and libunwind, with which py-spy reads native
        // frames, then fails in this library. GNU ld does not do that, and ignores the option. `zig cc` refuses it, so
        // `release/elf.py` does the same to the finished library.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,separate-loadable-segments");
    }
}
