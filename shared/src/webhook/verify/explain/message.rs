//! The signed message, split into pieces that the CLI can show or hide.

use crate::webhook::envelope::is_credential;
use crate::webhook::preset::{Location, Part, Scheme, Template};
use crate::webhook::verify::Rejected;
use crate::webhook::verify::message::{Context, message};

/// The signed message.
pub struct Message {
    /// The template in the notation of presets.
    pub template: String,
    pub pieces: Vec<Piece>,
}

/// A piece of the message.
pub struct Piece {
    /// The placeholder or literal of the template.
    pub part: String,
    pub bytes: Vec<u8>,
    pub show: Show,
}

/// When the CLI may show a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    Everybody,
    /// A part of the body, or a header that can have any content. The CLI shows it only on request.
    WhoAsks,
    /// The URL. The CLI shows its query only on request, because the query can have any content.
    Url,
    /// The secret. The CLI never shows it.
    Hidden,
}

impl Message {
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes.len()).sum()
    }
}

/// Returns the message that verification hashes, split into its pieces.
pub(super) fn read(scheme: &Scheme, context: &Context<'_>) -> Result<Message, Rejected> {
    let mut pieces = Vec::new();
    append(&mut pieces, scheme, &scheme.message.0, context)?;
    Ok(Message {
        template: scheme.message.to_string(),
        pieces,
    })
}

fn append(
    pieces: &mut Vec<Piece>,
    scheme: &Scheme,
    parts: &[Part],
    context: &Context<'_>,
) -> Result<(), Rejected> {
    for part in parts {
        let alone = Scheme {
            message: Template(vec![part.clone()]),
            ..scheme.clone()
        };
        let bytes = message(&alone, context)?.concat();
        match part {
            Part::Optional(inner) if !bytes.is_empty() => append(pieces, scheme, inner, context)?,
            Part::Optional(_) => {}
            _ => pieces.push(Piece {
                part: part.to_string(),
                bytes,
                show: show(part),
            }),
        }
    }
    Ok(())
}

fn show(part: &Part) -> Show {
    match part {
        Part::Secret => Show::Hidden,
        Part::Url | Part::Path | Part::PathEncoded => Show::Url,
        Part::At(Location::Header(names)) | Part::Lower(Location::Header(names))
            if !names.iter().any(|name| is_credential(name)) =>
        {
            Show::Everybody
        }
        Part::Literal(_)
        | Part::BodySha256Hex
        | Part::BodyCrc32
        | Part::Timestamp
        | Part::Method
        | Part::PublicUrl
        | Part::SigRaw(_) => Show::Everybody,
        _ => Show::WhoAsks,
    }
}
