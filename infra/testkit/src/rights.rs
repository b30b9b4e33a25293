//! The functions may do what their roles permit, and what they use of it is recorded.

use std::collections::BTreeMap;
use std::path::PathBuf;

use local::Rights;
use shared::base::env::env_var;

/// The policies of the template, and no other.
pub fn enforced() -> Rights {
    Rights {
        managed: BTreeMap::new(),
        record: env_var("MITT_RIGHTS_RECORD").map(PathBuf::from),
    }
}
