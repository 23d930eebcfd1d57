//! A network of two hidden layers, small enough to be written down whole.

/// How wide its hidden layers are.
const WIDTH: usize = 24;
const RATE: f32 = 0.05;
const MOMENTUM: f32 = 0.9;

/// Tells points of two classes apart.
pub(crate) struct Network {
    layers: [Layer; 3],
}

/// Weighted sums of its inputs.
struct Layer {
    inputs: usize,
    /// For each output the weights of its inputs, then its bias.
    weights: Vec<f32>,
    gradients: Vec<f32>,
    moments: Vec<f32>,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self { layers: [Layer::new(2, WIDTH), Layer::new(WIDTH, WIDTH), Layer::new(WIDTH, 1)] }
    }

    /// How sure it is that a point is of the second class, from 0 to 1.
    pub(crate) fn guess(&self, point: [f32; 2]) -> f32 {
        self.activations(point)[3][0]
    }

    /// Takes a step of gradient descent; returns the mean loss (cross-entropy) of the batch before it.
    pub(crate) fn train(&mut self, points: &[[f32; 2]], classes: &[f32]) -> f32 {
        let mut loss = 0.0;
        for (point, class) in points.iter().zip(classes) {
            let values = self.activations(*point);
            let guess = values[3][0];
            loss -= (if *class > 0.5 { guess } else { 1.0 - guess }).max(1e-7).ln();
            // Backwards: how the loss depends on each layer's sums.
            let mut slopes = vec![guess - class];
            for (layer, inputs) in self.layers.iter_mut().zip(&values).rev() {
                slopes = layer.backward(inputs, &slopes);
            }
        }
        for layer in &mut self.layers {
            layer.step(points.len());
        }
        loss / points.len() as f32
    }

    /// The point, the outputs of both hidden layers, and the guess.
    fn activations(&self, point: [f32; 2]) -> [Vec<f32>; 4] {
        let [first, second, last] = &self.layers;
        // Spirals wind around several times; larger inputs let the first layer bend as often.
        let inputs = point.map(|axis| axis * 4.0).to_vec();
        let one: Vec<f32> = first.sums(&inputs).map(f32::tanh).collect();
        let two: Vec<f32> = second.sums(&one).map(f32::tanh).collect();
        let guess = last.sums(&two).map(|sum| 1.0 / (1.0 + (-sum).exp())).collect();
        [inputs, one, two, guess]
    }
}

impl Layer {
    fn new(inputs: usize, outputs: usize) -> Self {
        let count = outputs * (inputs + 1);
        // Multiples of the golden ratio are spread evenly, and the same in each run.
        let spread = |i: usize| (i as f32 * 0.618_034).fract() * 2.0 - 1.0;
        let scale = (3.0 / inputs as f32).sqrt();
        let weights = (0..count).map(|i| spread(i + 1) * scale).collect();
        Self { inputs, weights, gradients: vec![0.0; count], moments: vec![0.0; count] }
    }

    fn sums(&self, inputs: &[f32]) -> impl Iterator<Item = f32> {
        self.weights.chunks(self.inputs + 1).map(move |row| {
            let (bias, weights) = row.split_last().expect("a bias at least");
            bias + weights.iter().zip(inputs).map(|(weight, input)| weight * input).sum::<f32>()
        })
    }

    /// Adds to the gradients; returns the slopes of the sums of the layer before, which is of `tanh`.
    fn backward(&mut self, inputs: &[f32], slopes: &[f32]) -> Vec<f32> {
        let width = self.inputs + 1;
        let mut before = vec![0.0; self.inputs];
        let rows = self.weights.chunks(width).zip(self.gradients.chunks_mut(width));
        for ((weights, gradients), slope) in rows.zip(slopes) {
            for (i, input) in inputs.iter().enumerate() {
                gradients[i] += slope * input;
                before[i] += slope * weights[i] * (1.0 - input * input);
            }
            gradients[self.inputs] += slope;
        }
        before
    }

    fn step(&mut self, samples: usize) {
        let state = self.gradients.iter_mut().zip(&mut self.moments);
        for (weight, (gradient, moment)) in self.weights.iter_mut().zip(state) {
            *moment = MOMENTUM * *moment + *gradient / samples as f32;
            *weight -= RATE * *moment;
            *gradient = 0.0;
        }
    }
}
