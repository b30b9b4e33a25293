//! Gives the functions the permissions of their roles, and records the permissions that they use.

use std::collections::BTreeMap;
use std::path::PathBuf;

use local::Rights;
use shared::base::env::env_var;

/// Returns the settings with only the policies of the template.
pub fn enforced() -> Rights {
    Rights {
        managed: BTreeMap::new(),
        record: env_var("MITT_RIGHTS_RECORD").map(PathBuf::from),
    }
}
