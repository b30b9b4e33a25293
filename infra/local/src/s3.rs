//! Emulates S3: stores objects as files, and supports the few REST calls that Mitt uses.
//!
//! Event bodies must be durable. Each object is therefore one file, which is written under a
//! temporary name and then renamed.

mod chunked;
mod object;

use std::{
    fmt::Write,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use percent_encoding::percent_decode_str;
use tokio::runtime::Handle;

use super::{
    names::now_ms,
    runtime::{listen, serve as serve_router},
};
use object::{Bucket, Meta};

/// Serves the buckets, which are the subfolders of `folder`, and returns the URL.
pub(crate) fn serve(engine: &Handle, folder: PathBuf) -> anyhow::Result<String> {
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("create the folder of the buckets {}", folder.display()))?;
    let (listener, port) = listen(0)?;
    let service = Arc::new(S3 {
        folder,
        writing: Mutex::default(),
    });
    let router = Router::new()
        .fallback(answer)
        .layer(DefaultBodyLimit::disable())
        .with_state(service);
    serve_router(engine, listener, router)?;
    Ok(format!("http://127.0.0.1:{port}"))
}

struct S3 {
    folder: PathBuf,
    /// A lock that allows one writer at a time. Only one of several puts with `If-None-Match: *`
    /// then succeeds.
    writing: Mutex<()>,
}

/// An error of S3.
struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

fn refuse(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal {
        status,
        code,
        message: message.into(),
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            error.to_string(),
        )
    }
}

async fn answer(
    State(s3): State<Arc<S3>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let head = method == Method::HEAD;
    // File access blocks, so it runs on a separate thread.
    let done = tokio::task::spawn_blocking(move || act(&s3, &method, &uri, &headers, body)).await;
    match done {
        Ok(Ok(response)) => response,
        Ok(Err(refusal)) if head => refusal.status.into_response(),
        Ok(Err(refusal)) => {
            let body = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{}</Code><Message>{}</Message></Error>",
                refusal.code,
                escape(&refusal.message)
            );
            (
                refusal.status,
                [(header::CONTENT_TYPE, "application/xml")],
                body,
            )
                .into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn act(
    s3: &S3,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let path = uri.path().trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(legal) || bucket.contains("..") {
        return Err(refuse(
            StatusCode::BAD_REQUEST,
            "InvalidBucketName",
            format!("The specified bucket is not valid: {bucket:?}"),
        ));
    }
    let folder = s3.folder.join(bucket);
    if key.is_empty() && *method == Method::PUT {
        std::fs::create_dir_all(&folder)?;
        return Ok(([(header::LOCATION, format!("/{bucket}"))], "").into_response());
    }
    let bucket = Bucket::open(folder).ok_or_else(|| {
        refuse(
            StatusCode::NOT_FOUND,
            "NoSuchBucket",
            "The specified bucket does not exist",
        )
    })?;
    let key = percent_decode_str(key).decode_utf8().map_err(|_| {
        refuse(
            StatusCode::BAD_REQUEST,
            "InvalidURI",
            "The key is not UTF-8",
        )
    })?;
    if key.is_empty() {
        return match *method {
            Method::HEAD => Ok(StatusCode::OK.into_response()),
            Method::GET => {
                let query = uri.query().unwrap_or_default();
                list(&bucket, query, is_about(query, "versions"))
            }
            _ => Err(not_here(method)),
        };
    }
    if uri.query().is_some_and(|query| is_about(query, "tagging")) {
        return tagging(s3, &bucket, &key, method, &body);
    }
    match *method {
        Method::PUT => put(s3, &bucket, &key, headers, body),
        Method::GET | Method::HEAD => get(&bucket, &key, *method == Method::GET),
        Method::DELETE => {
            bucket.delete(&key)?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        _ => Err(not_here(method)),
    }
}

fn not_here(method: &Method) -> Refusal {
    refuse(
        StatusCode::NOT_IMPLEMENTED,
        "NotImplemented",
        format!("the local S3 does not support this {method} request"),
    )
}

fn put(
    s3: &S3,
    bucket: &Bucket,
    key: &str,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let body = if text("x-amz-content-sha256").is_some_and(|hash| hash.starts_with("STREAMING-")) {
        chunked::decode(&body).ok_or_else(|| {
            refuse(
                StatusCode::BAD_REQUEST,
                "IncompleteBody",
                "The chunks of the body are invalid",
            )
        })?
    } else {
        body
    };
    let user = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix("x-amz-meta-")?;
        Some((name.to_owned(), value.to_str().ok()?.to_owned()))
    });
    let meta = Meta {
        key: key.to_owned(),
        content_type: text("content-type")
            .unwrap_or("binary/octet-stream")
            .to_owned(),
        etag: object::etag(&body),
        modified_ms: now_ms(),
        user: user.collect(),
        tags: text("x-amz-tagging").unwrap_or_default().to_owned(),
    };
    let _alone = s3.writing.lock().unwrap_or_else(PoisonError::into_inner);
    if text("if-none-match") == Some("*") && bucket.read(key)?.is_some() {
        return Err(refuse(
            StatusCode::PRECONDITION_FAILED,
            "PreconditionFailed",
            "At least one of the pre-conditions you specified did not hold",
        ));
    }
    bucket.write(&meta, &body)?;
    Ok(([(header::ETAG, meta.etag)], "").into_response())
}

fn get(bucket: &Bucket, key: &str, with_body: bool) -> Result<Response, Refusal> {
    let (meta, body) = bucket.read(key)?.ok_or_else(no_such_key)?;
    let mut response = Response::builder()
        .header(header::CONTENT_TYPE, meta.content_type)
        .header(header::ETAG, meta.etag)
        .header(header::LAST_MODIFIED, object::http_date(meta.modified_ms))
        .header(header::CONTENT_LENGTH, body.len());
    for (name, value) in meta.user {
        if let (Ok(name), Ok(value)) = (
            HeaderName::try_from(format!("x-amz-meta-{name}")),
            HeaderValue::from_str(&value),
        ) {
            response = response.header(name, value);
        }
    }
    let body = if with_body {
        Body::from(body)
    } else {
        Body::empty()
    };
    response.body(body).map_err(|error| {
        refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            error.to_string(),
        )
    })
}

/// Returns whether the query selects a subresource of the bucket or object, such as its tags.
fn is_about(query: &str, part: &str) -> bool {
    let mut pairs = query.split('&');
    pairs.any(|pair| pair.split('=').next() == Some(part))
}

/// Handles `PutObjectTagging` and `GetObjectTagging`.
fn tagging(
    s3: &S3,
    bucket: &Bucket,
    key: &str,
    method: &Method,
    body: &[u8],
) -> Result<Response, Refusal> {
    let _alone = s3.writing.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut meta, content) = bucket.read(key)?.ok_or_else(no_such_key)?;
    match *method {
        Method::PUT => {
            meta.tags = object::tags_in(&String::from_utf8_lossy(body));
            bucket.write(&meta, &content)?;
            Ok(StatusCode::OK.into_response())
        }
        Method::GET => {
            let tags = meta.tags.split('&').filter_map(|tag| tag.split_once('='));
            let mut set = String::new();
            for (key, value) in tags {
                let (key, value) = (escape(key), escape(value));
                // Writing to a String cannot fail.
                let _ = write!(set, "<Tag><Key>{key}</Key><Value>{value}</Value></Tag>");
            }
            let body = format!("<Tagging><TagSet>{set}</TagSet></Tagging>");
            Ok(([(header::CONTENT_TYPE, "application/xml")], body).into_response())
        }
        _ => Err(not_here(method)),
    }
}

fn no_such_key() -> Refusal {
    refuse(
        StatusCode::NOT_FOUND,
        "NoSuchKey",
        "The specified key does not exist.",
    )
}

/// Handles `ListObjectsV2` or `ListObjectVersions` with a prefix. The response has only one page.
/// Each object has one version, as in a bucket that never had versioning.
fn list(bucket: &Bucket, query: &str, versions: bool) -> Result<Response, Refusal> {
    let prefix = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("prefix="))
        .unwrap_or_default();
    let prefix = percent_decode_str(prefix).decode_utf8_lossy();
    let mut objects = bucket.list()?;
    objects.retain(|(meta, _)| meta.key.starts_with(prefix.as_ref()));
    objects.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
    let mut contents = String::new();
    let (entry, version, result) = if versions {
        (
            "Version",
            "<VersionId>null</VersionId>",
            "ListVersionsResult",
        )
    } else {
        ("Contents", "", "ListBucketResult")
    };
    for (meta, size) in &objects {
        // Writing to a String cannot fail.
        let _ = write!(
            contents,
            "<{entry}><Key>{}</Key>{version}<LastModified>{}</LastModified><ETag>{}</ETag><Size>{size}</Size></{entry}>",
            escape(&meta.key),
            object::time_of(meta.modified_ms),
            escape(&meta.etag),
        );
    }
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{result}><IsTruncated>false</IsTruncated>\
         <KeyCount>{}</KeyCount>{contents}</{result}>",
        objects.len()
    );
    Ok(([(header::CONTENT_TYPE, "application/xml")], body).into_response())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
