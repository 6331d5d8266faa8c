//! `Value`: what a function gives to Python, converted so that a lack of memory is a MemoryError.
//!
//! PyO3's own conversions of numbers, texts and tuples have no result, and panic.

use super::fallible;
use pyo3::prelude::*;

/// What a function returns, or an argument of a call.
pub struct Value<T>(pub T);

impl<'py, T: ToPython<'py>> IntoPyObject<'py> for Value<T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.to_python(py)
    }
}

/// Something with a counterpart in Python.
pub trait ToPython<'py> {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;
}

impl<'py> ToPython<'py> for u64 {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        fallible::int(py, self).map(Bound::into_any)
    }
}

impl<'py> ToPython<'py> for i64 {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        fallible::signed(py, self).map(Bound::into_any)
    }
}

impl<'py> ToPython<'py> for u8 {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        u64::from(self).to_python(py)
    }
}

impl<'py> ToPython<'py> for u16 {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        u64::from(self).to_python(py)
    }
}

impl<'py> ToPython<'py> for u32 {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        u64::from(self).to_python(py)
    }
}

impl<'py> ToPython<'py> for i32 {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        i64::from(self).to_python(py)
    }
}

impl<'py> ToPython<'py> for usize {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        (self as u64).to_python(py)
    }
}

impl<'py> ToPython<'py> for f64 {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        fallible::float(py, self).map(Bound::into_any)
    }
}

impl<'py> ToPython<'py> for &str {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        fallible::text(py, self).map(Bound::into_any)
    }
}

impl<'py> ToPython<'py> for String {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.as_str().to_python(py)
    }
}

impl<'py, T> ToPython<'py> for Bound<'py, T> {
    fn to_python(self, _: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.into_any())
    }
}

impl<'py, T> ToPython<'py> for Py<T> {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.into_any().into_bound(py))
    }
}

impl<'py, T: ToPython<'py>> ToPython<'py> for Option<T> {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.map_or_else(|| Ok(py.None().into_bound(py)), |value| value.to_python(py))
    }
}

impl<'py, T: ToPython<'py>> ToPython<'py> for Vec<T> {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items: Vec<_> =
            self.into_iter().map(|item| item.to_python(py)).collect::<PyResult<_>>()?;
        fallible::list_of(py, items.into_iter()).map(Bound::into_any)
    }
}

impl<'py, A: ToPython<'py>, B: ToPython<'py>> ToPython<'py> for (A, B) {
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = [self.0.to_python(py)?, self.1.to_python(py)?];
        fallible::tuple(py, items).map(Bound::into_any)
    }
}

impl<'py, A, B, C> ToPython<'py> for (A, B, C)
where
    A: ToPython<'py>,
    B: ToPython<'py>,
    C: ToPython<'py>,
{
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = [self.0.to_python(py)?, self.1.to_python(py)?, self.2.to_python(py)?];
        fallible::tuple(py, items).map(Bound::into_any)
    }
}

impl<'py, A, B, C, D> ToPython<'py> for (A, B, C, D)
where
    A: ToPython<'py>,
    B: ToPython<'py>,
    C: ToPython<'py>,
    D: ToPython<'py>,
{
    fn to_python(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = [
            self.0.to_python(py)?,
            self.1.to_python(py)?,
            self.2.to_python(py)?,
            self.3.to_python(py)?,
        ];
        fallible::tuple(py, items).map(Bound::into_any)
    }
}
