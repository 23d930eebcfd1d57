/// Damaged, lying and oversized files.
mod damage;
/// The fused path against decoding everything and a plain resize.
mod fused;
/// What each kind of file decodes to.
mod kinds;
/// Pictures made here.
mod made;
/// The collection of odd files, where it is at hand.
mod odd;
/// Real photographs, where they are at hand.
mod photos;
