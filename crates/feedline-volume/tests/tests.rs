//! What programs make of volumes, seen from outside.

mod volume;
