//! The environment of the process.

/// The value of an environment variable; `None` if it is not set or empty.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the environment"
)]
pub fn env_var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
