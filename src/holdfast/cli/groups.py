"""Groups of commands of which one is meant where none is named."""

from __future__ import annotations

import click


class ListingGroup(click.Group):
    """A group whose command ``list`` is meant where no other is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)
