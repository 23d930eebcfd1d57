//! How large the buffers of a compressed message are, by what they say, before any is decompressed.

use arrow_ipc::{Message, MessageHeader, MetadataVersion, root_as_message};
use arrow_schema::{DataType, Schema, UnionMode};

use crate::ipc::CONTINUATION;

/// Bytes of the length that a compressed buffer begins with.
const PREFIX: usize = 8;

/// The head of a message, behind its length.
pub(crate) fn message_of(bytes: &[u8]) -> Result<Message<'_>, String> {
    let head = match bytes.strip_prefix(&CONTINUATION.to_le_bytes()) {
        Some(rest) => rest.get(4..),
        None => bytes.get(4..),
    };
    root_as_message(head.ok_or("a message has no head")?).map_err(|e| e.to_string())
}

/// What those buffers of a message take once they are decompressed that are decompressed at all: of a batch the columns `roots`, of a
/// dictionary everything. Nothing where nothing is compressed. The head of the message has `head` bytes.
pub(crate) fn decompressed_bytes(
    bytes: &[u8],
    head: usize,
    schema: &Schema,
    roots: &[usize],
) -> Result<u64, String> {
    let (head, body) = bytes.split_at_checked(head).ok_or("a message ends within its head")?;
    let message = message_of(head)?;
    let (batch, all) = match message.header_type() {
        MessageHeader::DictionaryBatch => {
            (message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()), true)
        }
        _ => (message.header_as_record_batch(), false),
    };
    let batch = batch.ok_or("a message has no batch")?;
    let (Some(buffers), Some(_)) = (batch.buffers(), batch.compression()) else { return Ok(0) };
    let mut total = 0u64;
    let mut count = |places: std::ops::Range<usize>| -> Result<(), String> {
        for place in places.start..places.end.min(buffers.len()) {
            let (offset, length) = (buffers.get(place).offset(), buffers.get(place).length());
            let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
            let buffer = range.and_then(|(offset, length)| body.get(offset..)?.get(..length));
            let buffer = buffer.ok_or("a buffer lies outside of its message")?;
            // Those without a length are empty; a negative one says that nothing is compressed.
            let Some(said) = buffer.first_chunk::<PREFIX>() else { continue };
            let said = u64::try_from(i64::from_le_bytes(*said));
            total = total.saturating_add(said.unwrap_or(buffer.len() as u64));
        }
        Ok(())
    };
    if all {
        count(0..buffers.len())?;
        return Ok(total);
    }
    let mut views = batch.variadicBufferCounts().into_iter().flatten();
    let mut at = 0usize;
    for (root, field) in schema.fields().iter().enumerate() {
        let end = at.saturating_add(buffers_of(field.data_type(), message.version(), &mut views));
        if roots.contains(&root) {
            count(at..end)?;
        }
        at = end;
    }
    Ok(total)
}

/// How many buffers a column has. `views` says how many each column of views has beside its two.
fn buffers_of(
    kind: &DataType,
    version: MetadataVersion,
    views: &mut dyn Iterator<Item = i64>,
) -> usize {
    let mut inner = |kind: &DataType| buffers_of(kind, version, views);
    match kind {
        DataType::Null => 0,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
        DataType::Utf8View | DataType::BinaryView => {
            let more = views.next().and_then(|count| usize::try_from(count).ok());
            more.unwrap_or(0).saturating_add(2)
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
            inner(item.data_type()).saturating_add(2)
        }
        DataType::ListView(item) | DataType::LargeListView(item) => {
            inner(item.data_type()).saturating_add(3)
        }
        DataType::FixedSizeList(item, _) => inner(item.data_type()).saturating_add(1),
        DataType::Struct(children) => children
            .iter()
            .fold(1, |sum: usize, child| sum.saturating_add(inner(child.data_type()))),
        DataType::RunEndEncoded(ends, values) => {
            inner(ends.data_type()).saturating_add(inner(values.data_type()))
        }
        DataType::Union(children, mode) => {
            let own = 1
                + usize::from(version < MetadataVersion::V5)
                + usize::from(*mode == UnionMode::Dense);
            children
                .iter()
                .fold(own, |sum, (_, child)| sum.saturating_add(inner(child.data_type())))
        }
        // Which values are null, and the values or keys.
        _ => 2,
    }
}
