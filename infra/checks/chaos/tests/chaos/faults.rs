//! The ways in which a request to a service can fail.

use std::time::Duration;

use crate::rng::Dice;
use testkit::wire::Message;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection closes before the request is executed.
    Refuse,
    /// The request is executed, and its answer is lost.
    LoseAnswer,
    /// The request is executed after the caller has given up.
    Late(Duration),
    /// The service answers with an internal error.
    Error,
    /// The service throttles the request.
    Throttle,
    /// The request is executed, and its answer ends in the middle.
    CutAnswer,
    /// The request is executed twice, and the second answer is returned.
    Twice,
}

impl Fault {
    pub(crate) fn any(dice: &Dice) -> Self {
        match dice.below(7) {
            0 => Self::Refuse,
            1 => Self::LoseAnswer,
            2 => Self::Late(late(dice)),
            3 => Self::Error,
            4 => Self::Throttle,
            5 => Self::CutAnswer,
            _ => Self::Twice,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Refuse => "refused",
            Self::LoseAnswer => "answer lost",
            Self::Late(_) => "late",
            Self::Error => "error",
            Self::Throttle => "throttled",
            Self::CutAnswer => "answer cut",
            Self::Twice => "twice",
        }
    }
}

/// Returns a delay that is longer than the catcher waits for one try, and sometimes longer than a
/// worker waits.
fn late(dice: &Dice) -> Duration {
    if dice.chance(0.1) {
        Duration::from_millis(5_500)
    } else {
        dice.between(Duration::from_millis(750), Duration::from_millis(1_500))
    }
}

/// Returns the error response of a service.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html>
pub(crate) fn error(service: &str) -> Message {
    match service {
        "S3" => xml(500, "InternalError"),
        "SQS" => json(500, "com.amazonaws.sqs#InternalFailure"),
        "SSM" => json(500, "InternalServerError"),
        _ => json(500, "com.amazonaws.dynamodb.v20120810#InternalServerError"),
    }
}

/// Returns the throttling response of a service.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
pub(crate) fn throttled(service: &str) -> Message {
    match service {
        "S3" => xml(503, "SlowDown"),
        "SQS" => json(400, "com.amazonaws.sqs#RequestThrottled"),
        "SSM" => json(400, "ThrottlingException"),
        _ => json(
            400,
            "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        ),
    }
}

fn json(status: u16, kind: &str) -> Message {
    let body = format!(r#"{{"__type":"{kind}","message":"a fault of the proxy"}}"#);
    Message::answer(status, "application/x-amz-json-1.0", "", body)
}

fn xml(status: u16, code: &str) -> Message {
    let body = format!("<Error><Code>{code}</Code><Message>a fault of the proxy</Message></Error>");
    Message::answer(status, "application/xml", "", body)
}
