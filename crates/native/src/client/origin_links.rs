//! How others call a `ClientOrigin`: its exchanges, its connections, and the pool.

use super::connection::{ClientConnection, Home};
use super::exchange::{ClientExchange, Dispatcher};
use super::origin::ClientOrigin;
use super::pool::Applicant;
use crate::ffi::{Link, Object};
use pyo3::prelude::*;

struct Calls;

impl ClientOrigin {
    pub fn dispatcher(slf: &Bound<'_, Self>) -> Link<dyn Dispatcher> {
        Link { object: Object::new(slf.clone().into_any()), calls: &Calls }
    }

    pub fn home(slf: &Bound<'_, Self>) -> Link<dyn Home> {
        Link { object: Object::new(slf.clone().into_any()), calls: &Calls }
    }

    pub fn applicant(slf: &Bound<'_, Self>) -> Link<dyn Applicant> {
        Link { object: Object::new(slf.clone().into_any()), calls: &Calls }
    }
}

#[inline]
fn of<'a, 'py>(object: &'a Bound<'py, PyAny>) -> &'a Bound<'py, ClientOrigin> {
    object.cast_exact().expect("these calls are linked with nothing but a ClientOrigin")
}

impl Dispatcher for Calls {
    fn begin(
        &self,
        origin: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()> {
        ClientOrigin::begin(of(origin), exchange)
    }

    fn forget(
        &self,
        origin: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()> {
        ClientOrigin::forget(of(origin), exchange)
    }
}

impl Home for Calls {
    fn opened(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()> {
        ClientOrigin::opened(of(origin), connection)
    }

    fn give_back(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()> {
        ClientOrigin::give_back(of(origin), connection)
    }

    fn stillborn(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
        error: PyErr,
    ) -> PyResult<()> {
        ClientOrigin::stillborn(of(origin), connection, error)
    }

    fn closed(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()> {
        ClientOrigin::closed(of(origin), connection)
    }

    fn repeat(
        &self,
        origin: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()> {
        ClientOrigin::repeat(of(origin), exchange)
    }

    fn try_elsewhere(
        &self,
        origin: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
        why: &str,
    ) -> PyResult<()> {
        ClientOrigin::try_elsewhere(of(origin), exchange, why)
    }

    fn greeted(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()> {
        ClientOrigin::greeted(of(origin), connection)
    }

    fn share(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()> {
        ClientOrigin::share(of(origin), connection)
    }

    fn unshare(&self, origin: &Bound<'_, PyAny>, connection: &Bound<'_, ClientConnection>) {
        ClientOrigin::unshare(of(origin), connection);
    }
}

impl Applicant for Calls {
    fn open(&self, origin: &Bound<'_, PyAny>) -> usize {
        of(origin).get().state.with(origin.py(), |s| s.open)
    }

    fn is_short(&self, origin: &Bound<'_, PyAny>) -> bool {
        of(origin).get().is_short(origin.py())
    }

    fn waits_since_ns(&self, origin: &Bound<'_, PyAny>) -> Option<u64> {
        of(origin).get().waits_since_ns(origin.py())
    }

    fn set_queued(&self, origin: &Bound<'_, PyAny>, is_queued: bool) -> bool {
        let state = &of(origin).get().state;
        state.with(origin.py(), |s| std::mem::replace(&mut s.is_in_pools_queue, is_queued))
    }

    fn open_more(&self, origin: &Bound<'_, PyAny>) -> PyResult<()> {
        ClientOrigin::open_more(of(origin))
    }
}
