"""Models of images."""

import torch
import torch.nn.functional as F

from cases import Training, case


def classified(size=32, classes=5, rows=4):
    return lambda _: (torch.randn(rows, 3, size, size), torch.randint(0, classes, (rows,)))


def segmented(size=32, classes=4, rows=2):
    return lambda _: (torch.randn(rows, 3, size, size), torch.randint(0, classes, (rows, size, size)))


def cross_entropy(network, batch):
    return F.cross_entropy(network(batch[0]), batch[1])


def views(size=32, rows=4):
    return lambda _: (torch.randn(rows, 3, size, size), torch.randn(rows, 3, size, size))


@case("torchvision", classified())
def resnet18():
    import torchvision

    return Training(torchvision.models.resnet18(num_classes=5), cross_entropy)


@case("torchvision", classified())
def mobilenet_v3():
    import torchvision

    return Training(torchvision.models.mobilenet_v3_small(num_classes=5), cross_entropy)


@case("torchvision", segmented())
def lraspp_mobilenet():
    import torchvision

    network = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights_backbone=None, num_classes=4)
    return Training(network, lambda network, batch: F.cross_entropy(network(batch[0])["out"], batch[1]))


def boxes(_):
    target = [{"boxes": torch.tensor([[2.0, 3, 20, 30], [5, 5, 30, 25]]), "labels": torch.tensor([1, 2])} for _ in range(2)]
    return [torch.rand(3, 64, 64) for _ in range(2)], target


@case("torchvision", boxes)
def faster_rcnn():
    import torchvision

    network = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, num_classes=3)
    return Training(network, lambda network, batch: sum(network(*batch).values()))


def timm_model(name, **options):
    import timm

    return Training(timm.create_model(name, num_classes=5, **options), cross_entropy)


@case("timm", classified())
def timm_resnet():
    return timm_model("resnet10t")


@case("timm", classified())
def timm_vit():
    return timm_model("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, drop_path_rate=0.1)


@case("timm", classified())
def timm_vit_with_checkpointing():
    module = timm_model("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4)
    module.network.set_grad_checkpointing()
    return module


@case("timm", classified(64))
def timm_convnext():
    return timm_model("convnext_atto", depths=(1, 1, 1, 1), dims=(16, 24, 32, 48), drop_path_rate=0.1)


@case("timm", classified(64))
def timm_swin():
    return timm_model("swin_tiny_patch4_window7_224", img_size=64, window_size=4, embed_dim=24, depths=(2, 2), num_heads=(2, 4))


@case("timm", classified(64))
def timm_efficientnet():
    return timm_model("efficientnet_lite0")


@case("transformers", lambda _: {"pixel_values": torch.randn(4, 3, 32, 32), "labels": torch.randint(0, 5, (4,))})
def vit():
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, num_labels=5)
    return Training(ViTForImageClassification(config), lambda network, batch: network(**batch).loss)


@case("transformers", lambda _: {"pixel_values": torch.randn(2, 3, 64, 64), "labels": torch.randint(0, 4, (2, 64, 64))})
def segformer():
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(num_labels=4, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=32)
    return Training(SegformerForSemanticSegmentation(config), lambda network, batch: network(**batch).loss)


@case("segmentation-models-pytorch", segmented())
def unet_with_dice_loss():
    import segmentation_models_pytorch as smp

    network = smp.Unet("mobilenet_v2", encoder_weights=None, classes=4, encoder_depth=3, decoder_channels=(32, 16, 8))
    dice = smp.losses.DiceLoss("multiclass")
    return Training(network, lambda network, batch: dice(network(batch[0]), batch[1]))


@case("monai", lambda _: {"image": torch.randn(2, 1, 16, 16, 16), "label": torch.randint(0, 3, (2, 1, 16, 16, 16))})
def monai_unet_3d():
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    loss = DiceCELoss(to_onehot_y=True, softmax=True)
    network = UNet(3, 1, 3, channels=(8, 16, 32), strides=(2, 2), num_res_units=1)
    return Training(network, lambda network, batch: loss(network(batch["image"]), batch["label"]))


@case("lightly", views())
def simclr():
    import torchvision
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead

    backbone = torchvision.models.resnet18()
    backbone.fc = torch.nn.Identity()
    network, loss = torch.nn.Sequential(backbone, SimCLRProjectionHead(512, 64, 32)), NTXentLoss()
    return Training(network, lambda network, batch: loss(network(batch[0]), network(batch[1])))


@case("lightly", views())
def byol():
    import copy

    from lightly.loss import NegativeCosineSimilarity
    from lightly.models.modules import BYOLPredictionHead, BYOLProjectionHead
    from lightly.models.utils import deactivate_requires_grad, update_momentum

    body = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                               BYOLProjectionHead(16, 32, 16))
    network = torch.nn.ModuleDict({"online": body, "target": copy.deepcopy(body), "predict": BYOLPredictionHead(16, 32, 16)})
    deactivate_requires_grad(network["target"])
    negative = NegativeCosineSimilarity()

    def loss(network, batch):
        update_momentum(network["online"], network["target"], 0.99)
        online = [network["predict"](network["online"](view)) for view in batch]
        with torch.no_grad():
            target = [network["target"](view) for view in batch]
        return 0.5 * (negative(online[0], target[1]) + negative(online[1], target[0]))

    return Training(network, loss)


@case("torchgeo", lambda _: {"image": torch.randn(4, 4, 32, 32), "label": torch.randint(0, 5, (4,))})
def torchgeo_classification():
    from torchgeo.trainers import ClassificationTask

    return ClassificationTask(model="resnet10t", in_channels=4, num_classes=5)


@case("torchgeo", lambda _: {"image": torch.randn(4, 4, 32, 32), "mask": torch.randint(0, 3, (4, 32, 32))})
def torchgeo_segmentation():
    from torchgeo.trainers import SemanticSegmentationTask

    return SemanticSegmentationTask(model="unet", backbone="mobilenet_v2", in_channels=4, num_classes=3)


@case("diffusers", lambda _: torch.rand(2, 3, 16, 16))
def diffusion_unet():
    from diffusers import DDPMScheduler, UNet2DModel

    network = UNet2DModel(16, 3, 3, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, attention_head_dim=8,
                          down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    scheduler = DDPMScheduler()

    def loss(network, images):
        noise = torch.randn_like(images)
        steps = torch.randint(0, len(scheduler.alphas_cumprod), (images.shape[0],))
        return F.mse_loss(network(scheduler.add_noise(images, noise, steps), steps).sample, noise)

    return Training(network, loss)


@case("denoising-diffusion-pytorch", lambda _: torch.rand(2, 3, 16, 16))
def gaussian_diffusion():
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    return Training(GaussianDiffusion(Unet(16, dim_mults=(1, 2)), image_size=16, timesteps=100), lambda network, batch: network(batch))


@case("vit-pytorch", classified())
def vit_pytorch_simple():
    from vit_pytorch import SimpleViT

    return Training(SimpleViT(image_size=32, patch_size=8, num_classes=5, dim=32, depth=2, heads=4, mlp_dim=48), cross_entropy)


@case("vector-quantize-pytorch", lambda _: torch.randn(4, 3, 16, 16))
def vector_quantization():
    from vector_quantize_pytorch import VectorQuantize

    network = torch.nn.ModuleDict({"encoder": torch.nn.Conv2d(3, 16, 4, 4), "codes": VectorQuantize(16, 32, accept_image_fmap=True),
                                   "decoder": torch.nn.ConvTranspose2d(16, 3, 4, 4)})

    def loss(network, batch):
        quantized, _, commitment = network["codes"](network["encoder"](batch))
        return F.mse_loss(network["decoder"](quantized), batch) + commitment.sum()

    return Training(network, loss)


@case("pytorch-metric-learning", classified(classes=4, rows=8))
def arcface():
    from pytorch_metric_learning.losses import ArcFaceLoss

    network = torch.nn.ModuleDict({"body": torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                                                               torch.nn.Flatten(), torch.nn.Linear(8, 16)), "loss": ArcFaceLoss(4, 16)})
    return Training(network, lambda network, batch: network["loss"](network["body"](batch[0]), batch[1]))
