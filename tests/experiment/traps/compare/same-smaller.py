import torch

got = torch.arange(16.0).reshape(4, 4)
wanted = got.clone()
wanted[1, 2] += 1
torch.testing.assert_close(got, wanted)
