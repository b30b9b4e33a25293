//! The groups of the stack parameters, and an example for each parameter.

/// A parameter and a value that differs from its default.
type Example = (&'static str, &'static str);

/// The groups in the order of the page.
pub(super) const GROUPS: &[(&str, &[Example])] = &[
    (
        "Sources and destinations",
        &[
            ("SourcesFile", "/opt/sources.toml"),
            ("Sources", "table"),
            ("AllowedHosts", "hooks.example.com,*.example.org"),
            ("LongActions", "true"),
            ("LongConcurrency", "5"),
            ("Trial", "true"),
            ("AllowArming", "true"),
            (
                "DestinationPolicyArn",
                "arn:aws:iam::111122223333:policy/mitt-destinations",
            ),
            (
                "StatePolicyArn",
                "arn:aws:iam::111122223333:policy/mitt-state",
            ),
            ("WorkerApi", "true"),
        ],
    ),
    (
        "Limits",
        &[
            ("IngressRateLimit", "200"),
            ("IngressBurstLimit", "400"),
            ("WorkRateLimit", "100"),
            ("MaxWriteUnits", "4000"),
            ("MaxReadUnits", "4000"),
            ("ProcessorConcurrency", "2"),
            ("CatcherConcurrency", "20"),
            ("BatchWindowSeconds", "1"),
        ],
    ),
    (
        "Schedules",
        &[
            ("SweepEvery", "rate(1 minute)"),
            ("ReconcileEvery", "rate(6 hours)"),
        ],
    ),
    (
        "Alarms and logs",
        &[
            ("AlarmEmail", "on-call@example.com"),
            (
                "AlarmTopicArn",
                "arn:aws:sns:eu-central-1:111122223333:on-call",
            ),
            ("AlarmProfile", "full"),
            ("FloodAlarmRequests", "9600"),
            ("MissRatePercent", "1"),
            ("WaitingMinutes", "120"),
            ("Dashboard", "true"),
            ("LogLevel", "WARN"),
            ("LogRetentionDays", "90"),
        ],
    ),
    (
        "Security",
        &[
            ("DeletionProtection", "true"),
            ("TableName", "mitt-restored"),
            (
                "KmsKeyArn",
                "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
            ),
            ("SecretsManagerPrefix", "prod/webhooks"),
            (
                "PermissionsBoundaryArn",
                "arn:aws:iam::111122223333:policy/boundary",
            ),
            ("OperatorPolicies", "true"),
        ],
    ),
    (
        "Entry point",
        &[
            ("FrontDoor", "FunctionUrl"),
            ("DomainName", "hooks.example.com"),
            (
                "CertificateArn",
                "arn:aws:acm:eu-central-1:111122223333:certificate/1234abcd",
            ),
            ("HostedZoneId", "Z0123456789ABCDEFGHIJ"),
        ],
    ),
    (
        "Deployment",
        &[
            ("Architecture", "x86_64"),
            ("GradualDeployment", "Canary10Percent5Minutes"),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use local::template::parameters;

    use super::super::TEMPLATE;
    use super::*;

    #[test]
    fn each_parameter_is_in_one_group_with_an_example() {
        let examples: Vec<_> = GROUPS.iter().flat_map(|(_, examples)| *examples).collect();
        let by_name: BTreeMap<_, _> = examples.iter().map(|(name, it)| (*name, *it)).collect();
        assert_eq!(by_name.len(), examples.len());
        let parameters = parameters(TEMPLATE).unwrap();
        assert_eq!(parameters.len(), examples.len());
        for parameter in parameters {
            let example = by_name.get(parameter.name.as_str());
            let example = *example.unwrap_or_else(|| panic!("{} has no group", parameter.name));
            assert_ne!(
                Some(example),
                parameter.default.as_deref(),
                "{}",
                parameter.name
            );
            let allowed = parameter.allowed;
            assert!(
                allowed.is_empty() || allowed.iter().any(|value| value == example),
                "{} = {example}",
                parameter.name
            );
        }
    }
}
