//! The functions have the permissions of their roles, and the permissions that they use are
//! recorded.

use std::collections::BTreeMap;
use std::path::PathBuf;

use local::Rights;
use shared::base::env::env_var;

/// Only the policies of the template.
pub fn enforced() -> Rights {
    Rights {
        managed: BTreeMap::new(),
        record: env_var("MITT_RIGHTS_RECORD").map(PathBuf::from),
    }
}
