//! Helpers without domain knowledge, for example for time, retries and JSON documents.

pub mod backoff;
pub mod calendar;
pub mod clock;
pub mod env;
pub mod json_path;
pub mod random;
pub mod setting_path;
pub(crate) mod string_enum;
pub mod timing;
pub mod toml_error;
