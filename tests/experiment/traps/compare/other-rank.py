import torch

got = torch.arange(8.0)
wanted = got.clone()
wanted[3] += 1
torch.testing.assert_close(got, wanted)
