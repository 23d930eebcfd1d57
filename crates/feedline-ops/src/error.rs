//! Why an operation is refused.

/// Arguments of an operation that do not fit each other.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// Input and output of different length.
    #[error("the input has {input} elements and the output {output}; make them equally long")]
    Lengths {
        /// Elements of the input.
        input: usize,
        /// Elements of the output.
        output: usize,
    },
    /// Not one mean and one deviation per channel.
    #[error(
        "{means} means and {deviations} deviations; pass one of each per channel, at least one"
    )]
    Channels {
        /// How many means.
        means: usize,
        /// How many deviations.
        deviations: usize,
    },
    /// Elements that do not share out over the channels.
    #[error(
        "{elements} elements cannot be {channels} channels of equal size; pass a tensor of shape \
         (channels, height, width)"
    )]
    Shape {
        /// How many elements.
        elements: usize,
        /// How many channels.
        channels: usize,
    },
    /// A deviation that nothing can be divided by.
    #[error("the deviation of channel {channel} is {got}; pass a finite number above 0")]
    Deviation {
        /// The channel.
        channel: usize,
        /// Its deviation.
        got: f32,
    },
    /// A mean that is not a number.
    #[error("the mean of channel {channel} is {got}; pass a finite number")]
    Mean {
        /// The channel.
        channel: usize,
        /// Its mean.
        got: f32,
    },
}
