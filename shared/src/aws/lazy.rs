//! Clients that are created at their first call.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

/// A client that is created at its first call. Creating a client takes as long as a call, because
/// the SDK parses data about all regions for each service. Many processes never call some of the
/// services. Clones share the client.
#[derive(Debug)]
pub struct Lazy<C>(Arc<LazyLock<C, Box<dyn FnOnce() -> C + Send>>>);

impl<C> Lazy<C> {
    pub fn new(make: impl FnOnce() -> C + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }
}

/// Wraps an existing client.
impl<C: Send + 'static> From<C> for Lazy<C> {
    fn from(client: C) -> Self {
        Self::new(|| client)
    }
}

impl<C> Clone for Lazy<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> Deref for Lazy<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn it_is_made_once_and_not_before_it_is_used() {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let one = Lazy::new(|| MADE.fetch_add(1, Ordering::Relaxed));
        let same = one.clone();
        assert_eq!(MADE.load(Ordering::Relaxed), 0);
        assert_eq!((*one, *same), (0, 0));
        assert_eq!(MADE.load(Ordering::Relaxed), 1);
    }
}
