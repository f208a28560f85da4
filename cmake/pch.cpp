// Holds the precompiled torch/torch.h that the other targets reuse.
