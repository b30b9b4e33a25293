use super::*;

const REAL: &str = include_str!("../../../../template.yaml");

fn real() -> Template {
    Template::parse(REAL, &Naming::default()).unwrap()
}

#[test]
fn the_table_is_the_ledgers() {
    let template = real();
    let table = template.table_definition().unwrap();
    assert_eq!(table.name, "mitt-Inbox");
    assert_eq!(table.ttl.as_deref(), Some("ttl"));
    let names = |keys: &[aws_sdk_dynamodb::types::KeySchemaElement]| {
        keys.iter()
            .map(|key| key.attribute_name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&table.key_schema), ["pk", "sk"]);
    let indexes: Vec<_> = table
        .indexes
        .iter()
        .map(|index| (index.index_name.as_str(), names(&index.key_schema)))
        .collect();
    assert_eq!(
        indexes,
        [
            ("work", vec!["gpk".to_owned(), "gsk".to_owned()]),
            ("time", vec!["tpk".to_owned(), "tsk".to_owned()]),
        ]
    );
}

#[test]
fn the_queues_and_what_hangs_on_them() {
    let template = real();
    let work_message = template.queue("WorkQueue").unwrap();
    assert_eq!(
        work_message.url,
        "http://127.0.0.1:9/000000000000/mitt-WorkQueue"
    );
    assert_eq!(work_message.attributes["VisibilityTimeout"], "365");
    let redrive: Value = serde_json::from_str(&work_message.attributes["RedrivePolicy"]).unwrap();
    assert_eq!(
        redrive["deadLetterTargetArn"],
        template.queue("WorkDeadLetters").unwrap().arn
    );
    assert_eq!(redrive["maxReceiveCount"], 10);
    let mapping = Mapping {
        queue: "WorkQueue".to_owned(),
        function: "Processor".to_owned(),
        batch_size: 10,
        window: Duration::ZERO,
        max_concurrency: Some(5),
        reports_item_failures: true,
    };
    assert_eq!(template.mappings, [mapping]);
}

#[test]
fn the_functions_routes_and_schedules() {
    let template = real();
    let limits: Vec<_> = template
        .functions
        .iter()
        .map(|(id, function)| {
            (
                id.as_str(),
                function.binary.as_str(),
                function.timeout.as_secs(),
            )
        })
        .collect();
    assert_eq!(
        limits,
        [
            ("BackupSync", "backup-sync", 300),
            ("Catcher", "catcher", 10),
            ("Processor", "processor", 60)
        ]
    );
    let variables = &template.function("Processor").unwrap().environment;
    assert_eq!(variables["MITT_TABLE"], "mitt-Inbox");
    assert_eq!(variables["MITT_SECRETS_PATH"], "/mitt/egress");
    assert_eq!(variables["MITT_BODY_BUCKET"], template.buckets["Bodies"]);
    let routes: Vec<_> = template
        .routes
        .iter()
        .map(|route| (route.key.as_str(), route.function.as_str()))
        .collect();
    assert!(
        routes.contains(&("POST /in/{source}", "Catcher")),
        "{routes:?}"
    );
    let schedules: Vec<_> = template
        .schedules
        .iter()
        .map(|one| {
            (
                one.function.as_str(),
                one.rate.0.as_secs(),
                one.input["task"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        schedules,
        [
            ("BackupSync", 300, "sweep"),
            ("BackupSync", 300, "drain"),
            ("BackupSync", 900, "sync"),
            ("BackupSync", 3600, "count"),
            ("BackupSync", 3600, "endpoints"),
            ("BackupSync", 86_400, "reconcile")
        ]
    );
}

#[test]
fn parameters_can_be_given() {
    let parameters = [("SourcesFile".to_owned(), "/my.toml".to_owned())].into();
    let naming = Naming {
        parameters,
        ..Naming::default()
    };
    let template = Template::parse(REAL, &naming).unwrap();
    assert_eq!(
        template.functions["Catcher"].environment["MITT_SOURCES_FILE"],
        "/my.toml"
    );
    assert_eq!(
        real().functions["Catcher"].environment["MITT_SOURCES_FILE"],
        ""
    );
}

/// Returns the queue of a template that has one queue with these properties.
fn queue(properties: &str) -> anyhow::Result<QueueDefinition> {
    let text = format!(
        "Parameters:\n  Bare: {{ Type: String }}\n  Yes: {{ Type: String, Default: 'true' }}\n\
         Mappings:\n  M: {{ a: {{ b: 7 }} }}\n\
         Conditions:\n  On: !Equals [!Ref Yes, 'true']\n  Off: !Not [!Condition On]\n\
         Resources:\n  Q:\n    Type: AWS::SQS::Queue\n    Properties: {{ {properties} }}\n"
    );
    let template = Template::parse(&text, &Naming::default())?;
    Ok(template.queues["Q"].clone())
}

#[test]
fn functions_of_cloudformation_get_values() {
    for (value, expected) in [
        ("!Sub 'a-${AWS::Region}-${!x}'", "a-us-east-1-${x}"),
        ("!Sub ['${a}${Yes}', { a: 1 }]", "1true"),
        ("{ 'Fn::Sub': '${AWS::StackName}' }", "mitt"),
        ("{ Ref: Yes }", "true"),
        ("!Join ['-', [a, !Ref Yes]]", "a-true"),
        ("!Select [1, [a, b]]", "b"),
        ("!Select [1, !Split ['/', x/y]]", "y"),
        ("!If [On, a, b]", "a"),
        ("!If [Off, a, b]", "b"),
        ("!If [Off, a, !Ref AWS::NoValue]", "mitt-Q"),
    ] {
        assert_eq!(
            queue(&format!("QueueName: {value}")).unwrap().name,
            expected,
            "{value}"
        );
    }
    let number = queue("VisibilityTimeout: !FindInMap [M, a, b]").unwrap();
    assert_eq!(number.attributes["VisibilityTimeout"], "7");
}

#[test]
fn a_wrong_template_is_refused_by_the_name_of_what_is_wrong() {
    for (properties, said) in [
        (
            "QueueName: !Ref Nobody",
            "Nobody is neither a parameter nor a resource",
        ),
        ("QueueName: !Ref Bare", "parameter Bare has no default"),
        ("DelaySeconds: !GetAtt Q.Colour", "Q.Colour"),
        ("QueueName: !Sub '${Q'", "has no closing `}`"),
        ("QueueName: !Sub '${Q}'", "refers to itself"),
        (
            "QueueName: !Transform x",
            "does not support the function Transform",
        ),
        ("QueueName: !If [Nobody, a, b]", "no condition Nobody"),
        ("QueueName: [a]", "must be a string"),
        ("FifoQueue: true", "does not support FIFO"),
        ("DelaySeconds: 1, DelaySeconds: 2", "duplicated key"),
    ] {
        let error = format!("{:#}", queue(properties).unwrap_err());
        assert!(error.contains(said), "{properties}: {error}");
        assert!(
            said == "duplicated key" || error.contains("resource Q"),
            "{properties}: {error}"
        );
    }
    for (text, said) in [
        ("", "one YAML document"),
        ("a: [", "not YAML"),
        ("a: 1", "no resources"),
        (
            "Resources: { X: { Properties: {} } }",
            "resource X (line 1) has no type",
        ),
        (
            "Resources: { F: { Type: 'AWS::Serverless::Function' } }",
            "resource F has no Metadata",
        ),
        (
            "Resources: { T: { Type: 'AWS::DynamoDB::Table', Properties: { KeySchema: [{ AttributeName: a, \
             KeyType: HASH }], AttributeDefinitions: [] } } }",
            "the key a is missing",
        ),
        (
            "Resources: { S: { Type: 'AWS::Scheduler::Schedule', Properties: { ScheduleExpression: \
             'rate(2 weeks)' } } }",
            "resource S: invalid schedule",
        ),
    ] {
        let error = format!(
            "{:#}",
            Template::parse(text, &Naming::default()).unwrap_err()
        );
        assert!(error.contains(said), "{text}: {error}");
    }
}
