//! `Failure`: why feeding ended early, and the exception for it.

use oneloop_http1::Refusal;
use pyo3::IntoPyObjectExt;
use pyo3::intern;
use pyo3::prelude::*;

/// The httptools exception class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Error,
    Callback,
    Status,
    Method,
    Url,
}

impl Kind {
    fn class_name(self) -> &'static str {
        match self {
            Self::Error => "HttpParserError",
            Self::Callback => "HttpParserCallbackError",
            Self::Status => "HttpParserInvalidStatusError",
            Self::Method => "HttpParserInvalidMethodError",
            Self::Url => "HttpParserInvalidURLError",
        }
    }
}

/// The error that is raised again whenever the parser is fed afterwards.
#[derive(Clone, Debug)]
pub struct Verdict {
    kind: Kind,
    text: String,
}

impl Verdict {
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub fn exception(&self, py: Python<'_>) -> PyErr {
        exception(py, self.kind.class_name(), &self.text)
    }
}

pub enum Failure {
    /// From this position on the data is not HTTP any more.
    Upgrade(usize),
    Refused(Verdict),
    /// A callback has raised; its name.
    Raised(&'static str, PyErr),
}

impl Failure {
    pub fn refused(kind: Kind, text: impl Into<String>) -> Self {
        Self::Refused(Verdict::new(kind, text))
    }

    /// The error for further calls; `None` if the parser can continue.
    pub fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Upgrade(_) => None,
            Self::Refused(verdict) => Some(verdict.clone()),
            Self::Raised(name, _) => {
                Some(Verdict::new(Kind::Callback, format!("`{name}` callback error")))
            }
        }
    }

    pub fn exception(self, py: Python<'_>) -> PyErr {
        let verdict = self.verdict();
        match (self, verdict) {
            (Self::Upgrade(at), _) => exception(py, "HttpParserUpgrade", at),
            (Self::Raised(_, error), Some(verdict)) => {
                let shown = verdict.exception(py);
                if let Err(failed) =
                    shown.value(py).setattr(intern!(py, "__context__"), error.value(py))
                {
                    return failed;
                }
                shown
            }
            (_, verdict) => verdict.unwrap_or_else(|| Verdict::new(Kind::Error, "")).exception(py),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::refused(Kind::Error, refusal.reason)
    }
}

/// An instance of one of the facade's classes, or the error of looking it up.
pub fn exception<'py>(
    py: Python<'py>,
    class_name: &str,
    argument: impl IntoPyObject<'py>,
) -> PyErr {
    let make = || {
        let argument = argument.into_bound_py_any(py)?;
        py.import("oneloop.compat.httptools.parser.errors")?.getattr(class_name)?.call1((argument,))
    };
    make().map_or_else(|error| error, PyErr::from_value)
}
