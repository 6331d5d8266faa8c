//! Passes the interpreter's version and build (`Py_3_13`, `Py_GIL_DISABLED`…) on as cfgs.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
