//! Enforces the roles of the template for the calls of the functions.
//!
//! Each function signs with the name of its role as access key. A gate in front of each service
//! checks the policies of that role and returns `AccessDenied` as AWS does. The gate also records
//! the parts of the policies that each call needed, so that a test can find unused permissions.

mod call;
mod gate;
mod policy;
mod record;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde_json::Value;
use tokio::runtime::Handle;

use super::clients::Endpoints;
use call::Service;
pub(crate) use policy::Statement;
use record::Record;

/// Settings to check the calls of the functions against the policies of their roles.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    /// Statements of the operator's own policies, by the logical id of the role that they are
    /// attached to: `DestinationPolicyArn` and `StatePolicyArn` name such policies.
    pub managed: BTreeMap<String, Vec<Value>>,
    /// The folder for a file with the granted, used and denied permissions.
    pub record: Option<PathBuf>,
}

/// The policies of all roles, and the record of their use.
pub(crate) struct Guard {
    roles: BTreeMap<String, Vec<Statement>>,
    record: Record,
}

impl Guard {
    /// Creates a guard. `roles` are the roles of the template.
    pub(crate) fn new(
        rights: &Rights,
        roles: &BTreeMap<String, Vec<Statement>>,
    ) -> anyhow::Result<Arc<Self>> {
        let mut roles = roles.clone();
        let record = Record::open(rights.record.as_deref())?;
        for (role, statements) in &roles {
            for statement in statements {
                for part in statement.parts() {
                    record.granted(role, &part);
                }
            }
        }
        for (role, more) in &rights.managed {
            let more = more.iter().map(Statement::read);
            let more: Vec<Statement> = more.collect::<anyhow::Result<_>>()?;
            roles.entry(role.clone()).or_default().extend(more);
        }
        Ok(Arc::new(Self { roles, record }))
    }

    /// Starts a gate in front of each service, and returns the URLs of the gates.
    pub(crate) fn stand_before(
        self: &Arc<Self>,
        engine: &Handle,
        at: &Endpoints,
    ) -> anyhow::Result<Endpoints> {
        let gate = |service, url: &str| gate::serve(engine, Arc::clone(self), service, url);
        Ok(Endpoints {
            dynamodb: gate(Service::DynamoDb, &at.dynamodb)?,
            sqs: gate(Service::Sqs, &at.sqs)?,
            s3: gate(Service::S3, &at.s3)?,
            ssm: gate(Service::Ssm, &at.ssm)?,
            secrets_manager: gate(Service::SecretsManager, &at.secrets_manager)?,
        })
    }

    /// Returns whether a role may make a call. Records the permissions that the call used or
    /// lacked.
    fn permits(&self, role: &str, call: &call::Call) -> bool {
        let statements = self.roles.get(role).map(Vec::as_slice).unwrap_or_default();
        let mut permitted = false;
        for statement in statements {
            if let Some(parts) = statement.permits(call) {
                permitted = true;
                for part in parts {
                    self.record.used(role, &part);
                }
            }
        }
        if !permitted {
            self.record.denied(role, &call.to_string());
        }
        permitted
    }
}
