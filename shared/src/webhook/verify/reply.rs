//! Replies to handshakes.

use super::decode::encode;
use super::key::key;
use super::mac;
use super::{Reason, Rejected, unreadable};
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Encoding, Handshake, Hash, Json, Part, Reply, Scheme, Template};
use crate::webhook::secret::Secret;

/// The longest value of a request that a reply repeats, in bytes.
const LONGEST_ECHO: usize = 4096;

/// Returns the reply. If text of the request is invalid, the reply has an error status.
pub(super) fn reply(
    handshake: &Handshake,
    scheme: &Scheme,
    envelope: &Envelope,
    secrets: &[Secret],
) -> Result<Reply, Rejected> {
    let writer = Writer {
        handshake,
        scheme,
        envelope,
        secret: secrets.first(),
    };
    match writer.reply() {
        Err(Refused::Status(status)) => Ok(Reply::empty(status)),
        Err(Refused::Reason(reason)) => Err(Rejected(reason)),
        Ok(reply) => Ok(reply),
    }
}

enum Refused {
    /// Text of the request is not allowed in a reply. Mitt replies with this status.
    Status(u16),
    Reason(Reason),
}

struct Writer<'r> {
    handshake: &'r Handshake,
    scheme: &'r Scheme,
    envelope: &'r Envelope,
    secret: Option<&'r Secret>,
}

impl Writer<'_> {
    fn reply(&self) -> Result<Reply, Refused> {
        let at = &self.handshake.reply;
        let (content_type, body) = match (&at.json, &at.body) {
            (Some(json), _) => ("application/json", self.json(json)?.to_string()),
            (None, Some(body)) => ("text/plain", self.text(body)?),
            (None, None) => ("text/plain", String::new()),
        };
        let mut headers = std::collections::BTreeMap::new();
        for (name, value) in &at.headers {
            let value = self.text(value)?;
            if value.bytes().any(|b| b.is_ascii_control()) {
                return Err(Refused::Status(400));
            }
            headers.insert(name.to_ascii_lowercase(), value);
        }
        let secret = match &self.handshake.store_secret_from {
            Some(location) => {
                let sent = self.part(&Part::At(location.clone()))?;
                Some(Secret::new("handshake", sent))
            }
            None => None,
        };
        Ok(Reply {
            status: at.status,
            content_type: at.content_type.clone().unwrap_or(content_type.to_owned()),
            body,
            headers,
            secret,
        })
    }

    fn json(&self, json: &Json) -> Result<serde_json::Value, Refused> {
        Ok(match json {
            Json::Text(template) => self.text(template)?.into(),
            Json::Flag(flag) => (*flag).into(),
            Json::Number(number) => (*number).into(),
            Json::List(items) => items
                .iter()
                .map(|item| self.json(item))
                .collect::<Result<Vec<_>, _>>()?
                .into(),
            Json::Table(items) => {
                let items = items.iter();
                let items = items.map(|(name, item)| Ok((name.clone(), self.json(item)?)));
                serde_json::Value::Object(items.collect::<Result<_, _>>()?)
            }
        })
    }

    fn text(&self, template: &Template) -> Result<String, Refused> {
        self.parts(&template.0)
    }

    fn parts(&self, parts: &[Part]) -> Result<String, Refused> {
        parts.iter().map(|part| self.part(part)).collect()
    }

    fn part(&self, part: &Part) -> Result<String, Refused> {
        Ok(match part {
            Part::Literal(text) => text.clone(),
            Part::PublicUrl => self.envelope.public_url().to_owned(),
            Part::At(location) => {
                let value = location.find(self.envelope);
                let value = value.map_err(|error| Refused::Reason(unreadable(error).0))?;
                let value = value.ok_or(Refused::Reason(Reason::MissingField))?;
                let shape = self.handshake.charset.as_ref();
                let fits = |value: &str| shape.is_none_or(|shape| shape.is_match(value));
                if value.len() > LONGEST_ECHO || !fits(&value) {
                    return Err(Refused::Status(400));
                }
                value
            }
            Part::HmacHex(parts) => self.signed(parts, Encoding::Hex)?,
            Part::HmacBase64(parts) => self.signed(parts, Encoding::Base64)?,
            Part::Sha256Hex(parts) => {
                let text = self.parts(parts)?.into_bytes();
                hex::encode(mac::digest(Hash::Sha256, &[text.into()]))
            }
            _ => return Err(Refused::Reason(Reason::MissingField)),
        })
    }

    fn signed(&self, parts: &[Part], encoding: Encoding) -> Result<String, Refused> {
        let text = self.parts(parts)?.into_bytes();
        let key = self.secret.and_then(|s| key(self.scheme.key, s.expose()));
        let key = key.ok_or(Refused::Reason(Reason::NoSecret))?;
        let mac = mac::sign(self.scheme.hash, &key, &[text.into()]);
        Ok(encode(encoding, &mac))
    }
}
