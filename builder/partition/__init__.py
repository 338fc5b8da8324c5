"""Cut what a browser downloads into pieces: weights into packs and shards."""

from builder.partition.shards import SHARD_BYTES, Pack, Placement, plan_packs, split

__all__ = ["SHARD_BYTES", "Pack", "Placement", "plan_packs", "split"]
