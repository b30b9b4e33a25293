//! The test vectors of the presets: requests with their expected results. The build embeds the file
//! that the tests of the verification use.

mod judge;

use std::collections::BTreeMap;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::{Envelope, Headers};
use shared::webhook::preset::Preset;
use shared::webhook::verify::{Certificates, Jwks, Trust, Verifier};

pub(crate) use judge::Kind;

const EMBEDDED: &str = include_str!("../../../shared/tests/data/vectors.json");

/// A request with its expected result.
pub(crate) struct Vector {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) verifier: Verifier,
    pub(crate) secrets: Vec<Secret>,
    pub(crate) envelope: Envelope,
    expect: Expect,
}

#[derive(Deserialize)]
struct File {
    vectors: Vec<Written>,
}

/// A vector as the file has it.
#[derive(Deserialize)]
struct Written {
    id: String,
    provider: String,
    variant: String,
    #[serde(default)]
    secrets: Vec<String>,
    /// The time of receipt, in seconds.
    now: i64,
    request: Request,
    expect: Expect,
    #[serde(default)]
    params: Map<String, Value>,
}

#[derive(Deserialize)]
struct Request {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    #[serde(default)]
    body_b64: String,
    body_rule: Option<BodyRule>,
}

/// A long body, as a beginning, a repeated unit and an end.
#[derive(Deserialize)]
struct BodyRule {
    prefix_b64: String,
    unit_b64: String,
    count: usize,
    suffix_b64: String,
}

#[derive(Deserialize)]
struct Expect {
    verdict: String,
    /// The accepted reasons of a refusal, separated by `|`.
    reason: Option<String>,
    /// Null if a signed request is only a handshake.
    #[serde(default)]
    event: Value,
    #[serde(default)]
    response: Value,
}

/// Reads the vectors of the known presets. `text` is a file in the same format, in place of the
/// embedded one.
pub(crate) fn read(text: Option<&str>) -> anyhow::Result<Vec<Vector>> {
    let file: File = serde_json::from_str(text.unwrap_or(EMBEDDED)).context("invalid vectors")?;
    let known = |written: &Written| Preset::embedded(&written.provider, &BTreeMap::new()).is_ok();
    let written = file.vectors.into_iter().filter(known);
    let vectors = written.map(|written| {
        let id = written.id.clone();
        Vector::new(written).with_context(|| format!("vector {id}"))
    });
    vectors.collect()
}

impl Vector {
    fn new(written: Written) -> anyhow::Result<Self> {
        let kind = Kind::of(&written.expect)?;
        let secrets = written.secrets.iter().enumerate();
        let secrets = secrets.map(|(index, value)| Secret::new(index.to_string(), value));
        Ok(Self {
            kind,
            verifier: verifier(&written)?,
            secrets: secrets.collect(),
            envelope: written.request.envelope(written.now)?,
            expect: written.expect,
            id: written.id,
        })
    }
}

/// Returns the verifier of a source with the parameters of the vector.
fn verifier(written: &Written) -> anyhow::Result<Verifier> {
    let declared = Preset::embedded(&written.provider, &BTreeMap::new())?.params;
    let given = &written.params;
    let params = given.iter().filter_map(|(name, value)| {
        let value = value.as_str().filter(|_| declared.contains_key(name))?;
        Some((name.clone(), value.to_owned()))
    });
    let jwks = given.get("jwks").filter(|jwks| !jwks.is_null());
    let jwks = jwks.map(|jwks| Jwks::parse(&jwks.to_string()));
    let by_url = given.get("certs").and_then(Value::as_object);
    let by_url = by_url.into_iter().flatten();
    let by_url = by_url.filter_map(|(url, pem)| Some((url.clone(), pem.as_str()?.to_owned())));
    let roots = given.get("roots_pem").and_then(Value::as_str);
    let certificates = Certificates::new(roots.unwrap_or_default(), &by_url.collect())?;
    let arming = given.get("arming").and_then(Value::as_bool);
    Ok(Verifier {
        source: "source".to_owned(),
        preset: Preset::embedded(&written.provider, &params.collect())?,
        variant: written.variant.clone(),
        trust: Trust::given(arming, jwks.transpose()?, certificates),
        config: "vectors".to_owned(),
    })
}

impl Request {
    fn envelope(&self, now: i64) -> anyhow::Result<Envelope> {
        let headers = self.headers.iter();
        let headers: Headers = headers
            .map(|(name, value)| (name.to_lowercase(), value.clone()))
            .collect();
        Ok(Envelope {
            method: self.method.clone(),
            url: self.url.clone(),
            headers,
            body: self.body()?.into(),
            received_at: UnixMillis::from_secs(now),
        })
    }

    fn body(&self) -> anyhow::Result<Vec<u8>> {
        let Some(rule) = &self.body_rule else {
            return Ok(STANDARD.decode(&self.body_b64)?);
        };
        let mut body = STANDARD.decode(&rule.prefix_b64)?;
        body.extend(STANDARD.decode(&rule.unit_b64)?.repeat(rule.count));
        body.extend(STANDARD.decode(&rule.suffix_b64)?);
        Ok(body)
    }
}
