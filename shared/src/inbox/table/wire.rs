//! The JSON of the calls that skip the SDK.
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html>

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::error::ErrorMetadata;
use aws_sdk_dynamodb::operation::get_item::builders::GetItemInputBuilder;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemInputBuilder;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemInputBuilder;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Error as _, SerializeMap as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Returns;
use crate::aws::Reply;
use crate::inbox::item::{self, Item};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PutItem<'a> {
    pub(super) table_name: &'a str,
    pub(super) item: Attributes<'a>,
    #[serde(flatten)]
    pub(super) condition: Condition<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct UpdateItem<'a> {
    pub(super) table_name: &'a str,
    pub(super) key: Key<'a>,
    pub(super) update_expression: &'a str,
    #[serde(skip_serializing_if = "HashMap::is_empty")]
    pub(super) expression_attribute_names: &'a HashMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) return_values: Option<&'static str>,
    #[serde(flatten)]
    pub(super) condition: Condition<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetItem<'a> {
    pub(super) table_name: &'a str,
    pub(super) key: Key<'a>,
    pub(super) consistent_read: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) projection_expression: Option<&'a str>,
}

/// The condition of a write, its values, and whether DynamoDB returns the item if it is false.
#[derive(Serialize)]
pub(super) struct Condition<'a> {
    #[serde(
        rename = "ConditionExpression",
        skip_serializing_if = "Option::is_none"
    )]
    text: Option<&'a str>,
    #[serde(
        rename = "ExpressionAttributeValues",
        skip_serializing_if = "Attributes::is_empty"
    )]
    values: Attributes<'a>,
    #[serde(
        rename = "ReturnValuesOnConditionCheckFailure",
        skip_serializing_if = "Option::is_none"
    )]
    old: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct Key<'a> {
    pk: Text<'a>,
    sk: Text<'a>,
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(rename = "S")]
    s: &'a str,
}

impl<'a> Key<'a> {
    pub(super) fn new(pk: &'a str, sk: &'a str) -> Self {
        let (pk, sk) = (Text { s: pk }, Text { s: sk });
        Self { pk, sk }
    }

    fn for_sdk(&self) -> Item {
        let entry = |name: &str, value: &Text<'_>| (name.to_owned(), item::s(value.s));
        Item::from([entry("pk", &self.pk), entry("sk", &self.sk)])
    }
}

impl<'a> Condition<'a> {
    /// An empty condition is always true.
    pub(super) fn new(text: &'a str, values: &'a Item, returns: Returns) -> Self {
        let returns_old = matches!(returns, Returns::All | Returns::Refused);
        Self {
            text: Some(text).filter(|text| !text.is_empty()),
            values: Attributes(values),
            old: returns_old.then_some("ALL_OLD"),
        }
    }

    fn text(&self) -> Option<String> {
        self.text.map(str::to_owned)
    }

    fn values(&self) -> Option<Item> {
        let Attributes(values) = self.values;
        Some(values.clone()).filter(|values| !values.is_empty())
    }

    fn old(&self) -> Option<ReturnValuesOnConditionCheckFailure> {
        self.old.map(ReturnValuesOnConditionCheckFailure::from)
    }
}

/// The same calls for the SDK.
impl PutItem<'_> {
    pub(super) fn for_sdk(&self) -> PutItemInputBuilder {
        let condition = &self.condition;
        PutItemInputBuilder::default()
            .table_name(self.table_name)
            .set_item(Some(self.item.0.clone()))
            .set_condition_expression(condition.text())
            .set_expression_attribute_values(condition.values())
            .set_return_values_on_condition_check_failure(condition.old())
    }
}

impl UpdateItem<'_> {
    pub(super) fn for_sdk(&self) -> UpdateItemInputBuilder {
        let condition = &self.condition;
        let names = self.expression_attribute_names;
        UpdateItemInputBuilder::default()
            .table_name(self.table_name)
            .set_key(Some(self.key.for_sdk()))
            .update_expression(self.update_expression)
            .set_expression_attribute_names(Some(names.clone()).filter(|it| !it.is_empty()))
            .set_return_values(self.return_values.map(ReturnValue::from))
            .set_condition_expression(condition.text())
            .set_expression_attribute_values(condition.values())
            .set_return_values_on_condition_check_failure(condition.old())
    }
}

impl GetItem<'_> {
    pub(super) fn for_sdk(&self) -> GetItemInputBuilder {
        GetItemInputBuilder::default()
            .table_name(self.table_name)
            .set_key(Some(self.key.for_sdk()))
            .consistent_read(self.consistent_read)
            .set_projection_expression(self.projection_expression.map(str::to_owned))
    }
}

/// The answer to a call.
pub(super) enum Answer {
    /// DynamoDB applied the call. Contains the item, or its updated attributes, if there are any.
    Applied(Option<Item>),
    /// The condition was false. Contains the item, if DynamoDB returns it.
    Refused(Option<Item>),
    /// The call failed with an error that a repetition of the same call would get again.
    Failed(ErrorMetadata),
}

/// The errors of [`Answer::Failed`]. The caller repeats a call that conflicts with a transaction.
const FINAL: [&str; 4] = [
    "ItemCollectionSizeLimitExceededException",
    "ResourceNotFoundException",
    "TransactionConflictException",
    "ValidationException",
];

impl Answer {
    /// Reads a response. Returns `None` for every other answer, after which the SDK sends the call.
    pub(super) fn of(reply: &Reply) -> Option<Self> {
        let read: Read = serde_json::from_slice(&reply.body).ok()?;
        let item = read.item.or(read.attributes).map(|item| item.0);
        let kind = read.kind.as_deref();
        let code = kind.map(|kind| kind.rsplit_once('#').map_or(kind, |(_, code)| code));
        match (reply.status, code) {
            (200, None) => Some(Self::Applied(item)),
            (400, Some("ConditionalCheckFailedException")) => Some(Self::Refused(item)),
            (400, Some(code)) if FINAL.contains(&code) => {
                let error = ErrorMetadata::builder().code(code);
                let error = error.message(read.message.unwrap_or_default());
                Some(Self::Failed(error.build()))
            }
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Read {
    #[serde(rename = "__type")]
    kind: Option<String>,
    #[serde(alias = "Message")]
    message: Option<String>,
    #[serde(rename = "Item")]
    item: Option<ReadItem>,
    #[serde(rename = "Attributes")]
    attributes: Option<ReadItem>,
}

/// The attributes of an item, in the JSON of DynamoDB.
#[derive(Clone, Copy)]
pub(super) struct Attributes<'a>(pub(super) &'a Item);

impl Attributes<'_> {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let attributes = self.0.iter();
        serializer.collect_map(attributes.map(|(name, value)| (name, Attribute(value))))
    }
}

struct Attribute<'a>(&'a AttributeValue);

impl Serialize for Attribute<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self.0 {
            AttributeValue::S(text) => map.serialize_entry("S", text)?,
            AttributeValue::N(number) => map.serialize_entry("N", number)?,
            AttributeValue::B(bytes) => map.serialize_entry("B", &STANDARD.encode(bytes))?,
            AttributeValue::Bool(value) => map.serialize_entry("BOOL", value)?,
            AttributeValue::Null(value) => map.serialize_entry("NULL", value)?,
            AttributeValue::Ss(texts) => map.serialize_entry("SS", texts)?,
            AttributeValue::Ns(numbers) => map.serialize_entry("NS", numbers)?,
            AttributeValue::Bs(all) => {
                let all: Vec<String> = all.iter().map(|one| STANDARD.encode(one)).collect();
                map.serialize_entry("BS", &all)?;
            }
            AttributeValue::L(values) => {
                let values: Vec<Attribute<'_>> = values.iter().map(Attribute).collect();
                map.serialize_entry("L", &values)?;
            }
            AttributeValue::M(values) => map.serialize_entry("M", &Attributes(values))?,
            _ => return Err(S::Error::custom("an attribute has an unknown type")),
        }
        map.end()
    }
}

struct ReadItem(Item);

impl<'de> Deserialize<'de> for ReadItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = ReadItem;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an item")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReadItem, A::Error> {
                let mut item = Item::with_capacity(map.size_hint().unwrap_or(32));
                while let Some((name, value)) = map.next_entry::<String, ReadAttribute>()? {
                    item.insert(name, value.0);
                }
                Ok(ReadItem(item))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

struct ReadAttribute(AttributeValue);

impl<'de> Deserialize<'de> for ReadAttribute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Typed;
        impl<'de> Visitor<'de> for Typed {
            type Value = ReadAttribute;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an attribute with its type")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReadAttribute, A::Error> {
                let Some(kind) = map.next_key::<Kind>()? else {
                    return Err(A::Error::custom("an attribute has no type"));
                };
                let value = match kind {
                    Kind::S => AttributeValue::S(map.next_value()?),
                    Kind::N => AttributeValue::N(map.next_value()?),
                    Kind::B => AttributeValue::B(map.next_value::<ReadBytes>()?.0),
                    Kind::Bool => AttributeValue::Bool(map.next_value()?),
                    Kind::Null => AttributeValue::Null(map.next_value()?),
                    Kind::Ss => AttributeValue::Ss(map.next_value()?),
                    Kind::Ns => AttributeValue::Ns(map.next_value()?),
                    Kind::Bs => {
                        let all: Vec<ReadBytes> = map.next_value()?;
                        AttributeValue::Bs(all.into_iter().map(|one| one.0).collect())
                    }
                    Kind::L => {
                        let values: Vec<ReadAttribute> = map.next_value()?;
                        AttributeValue::L(values.into_iter().map(|value| value.0).collect())
                    }
                    Kind::M => AttributeValue::M(map.next_value::<ReadItem>()?.0),
                };
                match map.next_entry::<IgnoredAny, IgnoredAny>()? {
                    None => Ok(ReadAttribute(value)),
                    Some(_) => Err(A::Error::custom("an attribute has two types")),
                }
            }
        }
        deserializer.deserialize_map(Typed)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    S,
    N,
    B,
    Bool,
    Null,
    Ss,
    Ns,
    Bs,
    L,
    M,
}

struct ReadBytes(Blob);

impl<'de> Deserialize<'de> for ReadBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Encoded;
        impl Visitor<'_> for Encoded {
            type Value = ReadBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes in Base64")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ReadBytes, E> {
                let bytes = STANDARD.decode(text).map_err(E::custom)?;
                Ok(ReadBytes(Blob::new(bytes)))
            }
        }
        deserializer.deserialize_str(Encoded)
    }
}
