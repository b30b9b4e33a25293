//! Decodes `aws-chunked` bodies, which have a checksum at the end.

use bytes::{Bytes, BytesMut};

/// Joins the chunks `<hex length>[;signature]\r\n<bytes>\r\n`, and skips the trailers.
pub(super) fn decode(mut body: &[u8]) -> Option<Bytes> {
    let mut joined = BytesMut::with_capacity(body.len());
    loop {
        let end = body.windows(2).position(|pair| pair == b"\r\n")?;
        let line = std::str::from_utf8(&body[..end]).ok()?;
        let length = line.split(';').next()?;
        let length = usize::from_str_radix(length.trim(), 16).ok()?;
        if length == 0 {
            return Some(joined.freeze());
        }
        let chunk = body.get(end + 2..)?.get(..length)?;
        joined.extend_from_slice(chunk);
        body = body.get(end + 2 + length..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined_and_trailers_skipped() {
        let body =
            b"3;chunk-signature=ab\r\na\r\n\r\n2\r\nbc\r\n0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n";
        assert_eq!(decode(body).unwrap(), &b"a\r\nbc"[..]);
    }

    #[test]
    fn a_cut_off_body_is_refused() {
        for body in ["", "3\r\nab", "3\r\nabc", "zz\r\nabc\r\n", "3\r\nabc\r\n"] {
            assert_eq!(decode(body.as_bytes()), None, "{body:?}");
        }
    }
}
