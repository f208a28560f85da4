"""Models that find parts of images and films: segmentation, detection, video, more pixels."""

import torch
import torch.nn.functional as F

from cases import Training, case
from vision import classified, cross_entropy, segmented, timm_model


@case("torchvision", segmented())
def deeplab_v3():
    import torchvision

    network = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)
    return Training(network, lambda network, batch: F.cross_entropy(network(batch[0])["out"], batch[1]))


@case("torchvision", lambda _: (torch.randn(2, 3, 4, 32, 32), torch.randint(0, 5, (2,))))
def video_resnet():
    import torchvision

    return Training(torchvision.models.video.mc3_18(num_classes=5), cross_entropy)


@case("torchvision", classified(64))
def swin_v2():
    import torchvision

    network = torchvision.models.SwinTransformer([4, 4], 24, [1, 1], [2, 4], [4, 4], stochastic_depth_prob=0.1, num_classes=5,
                                                 block=torchvision.models.swin_transformer.SwinTransformerBlockV2,
                                                 downsample_layer=torchvision.models.swin_transformer.PatchMergingV2)
    return Training(network, cross_entropy)


@case("torchvision", classified(96, rows=2))
def googlenet():
    import torchvision

    network = torchvision.models.googlenet(num_classes=5, init_weights=False, aux_logits=True)

    def loss(network, batch):
        found = network(batch[0])
        return sum(weight * F.cross_entropy(part, batch[1]) for weight, part in zip((1, 0.3, 0.3), found)) if network.training else \
            F.cross_entropy(found, batch[1])

    return Training(network, loss)


@case("timm", classified(64))
def timm_mixer():
    return timm_model("mixer_s32_224", img_size=64)


@case("timm", classified(64))
def timm_mobilevit():
    return timm_model("mobilevit_xxs")


@case("timm", classified(64))
def timm_regnet():
    return timm_model("regnetx_002", drop_rate=0.2)


@case("transformers", lambda _: {"pixel_values": torch.randn(4, 3, 32, 32), "labels": torch.randint(0, 5, (4,))})
def swin_classifier():
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, num_labels=5)
    return Training(SwinForImageClassification(config), lambda network, batch: network(**batch).loss)


def boxes_of_images(_):
    return {"pixel_values": torch.randn(2, 3, 64, 64), "labels": [{"class_labels": torch.randint(0, 3, (2,)), "boxes": torch.rand(2, 4) * 0.4 + 0.2}
                                                                  for _ in range(2)]}


@case("transformers", boxes_of_images)
def detr():
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"])
    config = DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, num_queries=5, d_model=16,
                        encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
                        num_labels=3)
    return Training(DetrForObjectDetection(config), lambda network, batch: network(**batch).loss)


def volumes(size=32, classes=3):
    return lambda _: {"image": torch.randn(2, 1, size, size), "label": torch.randint(0, classes, (2, 1, size, size))}


def with_dice(network):
    from monai.losses import DiceFocalLoss

    loss = DiceFocalLoss(to_onehot_y=True, softmax=True)
    return Training(network, lambda network, batch: loss(network(batch["image"]), batch["label"]))


@case("monai", volumes())
def monai_segresnet():
    from monai.networks.nets import SegResNet

    return with_dice(SegResNet(spatial_dims=2, init_filters=8, in_channels=1, out_channels=3, blocks_down=(1, 1), blocks_up=(1,), dropout_prob=0.1))


@case("monai", volumes())
def monai_attention_unet():
    from monai.networks.nets import AttentionUnet

    return with_dice(AttentionUnet(spatial_dims=2, in_channels=1, out_channels=3, channels=(8, 16), strides=(2,)))


@case("monai", volumes())
def monai_unetr():
    from monai.networks.nets import UNETR

    return with_dice(UNETR(1, 3, img_size=32, feature_size=8, hidden_size=24, mlp_dim=32, num_heads=2, spatial_dims=2))


@case("monai", lambda _: {"image": torch.randn(2, 1, 16, 16, 16), "label": torch.randint(0, 2, (2,))})
def monai_densenet():
    from monai.networks.nets import DenseNet

    network = DenseNet(3, 1, 2, init_features=8, growth_rate=4, block_config=(2, 2))
    return Training(network, lambda network, batch: F.cross_entropy(network(batch["image"]), batch["label"]))


@case("segmentation-models-pytorch", segmented())
def fpn_with_focal_loss():
    import segmentation_models_pytorch as smp

    network, focal = smp.FPN("resnet18", encoder_weights=None, classes=4, encoder_depth=3, upsampling=1), smp.losses.FocalLoss("multiclass")
    return Training(network, lambda network, batch: focal(F.interpolate(network(batch[0]), batch[1].shape[-2:]), batch[1]))


@case("kornia", lambda _: (torch.rand(2, 3, 16, 16), torch.rand(2, 3, 32, 32)))
def super_resolution():
    import kornia

    network = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.PReLU(), torch.nn.Conv2d(16, 12, 3, padding=1), torch.nn.PixelShuffle(2))
    ssim, charbonnier = kornia.losses.SSIMLoss(5), kornia.losses.CharbonnierLoss(reduction="mean")
    return Training(network, lambda network, batch: ssim(network(batch[0]), batch[1]) + charbonnier(network(batch[0]), batch[1]))
