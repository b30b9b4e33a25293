//! The responses to requests that the console does not answer.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::output::{CliError, Exit, Format};

/// A status and, for requests of our own page, the error of the CLI.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    error: Option<Box<CliError>>,
}

impl Refusal {
    /// Without a body, for requests that do not come from our page.
    pub(super) fn bare(status: StatusCode) -> Self {
        Self {
            status,
            error: None,
        }
    }

    pub(super) fn new(status: StatusCode, error: CliError) -> Self {
        Self {
            status,
            error: Some(Box::new(error)),
        }
    }
}

impl From<CliError> for Refusal {
    fn from(error: CliError) -> Self {
        Self::new(status(error.exit), error)
    }
}

/// Returns the status for an error with this exit code.
pub(super) fn status(exit: Exit) -> StatusCode {
    match exit {
        Exit::Usage => StatusCode::BAD_REQUEST,
        Exit::NotFound => StatusCode::NOT_FOUND,
        Exit::Denied => StatusCode::FORBIDDEN,
        Exit::Refused => StatusCode::CONFLICT,
        Exit::Busy => StatusCode::LOCKED,
        Exit::Timeout => StatusCode::GATEWAY_TIMEOUT,
        Exit::Done | Exit::No | Exit::Partial => StatusCode::OK,
        Exit::Failed | Exit::Interrupted => StatusCode::BAD_GATEWAY,
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Some(error) = self.error else {
            return self.status.into_response();
        };
        let body = Body::from(error.render(Format::Json, false));
        let json = [(header::CONTENT_TYPE, "application/json")];
        (self.status, json, body).into_response()
    }
}
