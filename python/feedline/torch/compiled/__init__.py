"""Known datasets and transforms, run natively: `DataLoader(worker_mode="native")`.

`plan` goes through a dataset and says what runs where; `torchvision`, `in_memory` and
`hugging_face` know datasets, `transforms` knows what is done to pictures, `chain` follows it;
`rest` is what Python goes on with; `form` is how the engine's fields become the user's batch.
"""
