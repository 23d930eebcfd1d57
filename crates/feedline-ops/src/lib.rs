//! What makes tensors of bytes: conversions and, later, image, volume and text operations.
