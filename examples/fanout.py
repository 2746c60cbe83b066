"""Fan out: many steps at once. Their results are taken all together, or one by one as they come.

    python examples/fanout.py

The steps of a run are concurrent and durable, and each is retried separately; the workflow is plain asyncio.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from holdfast import Holdfast, RetryableError, join_set, step, step_info, workflow

PAGES = ["home", "prices", "team", "blog", "contact", "imprint"]


@step(retries=5)
async def count_words(page: str) -> int:
    """Fetch a page and count its words. The first attempt at the blog fails; only that step is tried again."""
    await asyncio.sleep(0.05 * len(page))
    if page == "blog" and step_info().attempt == 1:
        raise RetryableError("the blog is slow today", after=0.2)
    return 100 * len(page)


@step
def write_report(total: int) -> str:
    """A plain function can be a step, too: it runs in a thread."""
    return f"{total} words"


@workflow
async def count_site(pages: list[str]) -> str:
    """All pages at once with plain asyncio; results in the order of the pages."""
    counts = await asyncio.gather(*(count_words(page) for page in pages))
    return await write_report(sum(counts))


@workflow
async def first_long_page(pages: list[str], words: int) -> int | None:
    """Take the results one by one, in the order in which they come, without waiting for the rest."""
    counts = join_set()
    for page in pages:
        counts.submit(count_words(page))
    async for count in counts:
        if count >= words:
            return int(count)
    return None


async def main() -> None:
    """Run both workflows."""
    with tempfile.TemporaryDirectory() as folder:
        async with Holdfast(f"sqlite:///{Path(folder) / 'fanout.db'}") as app:
            whole = await app.start(count_site, PAGES)
            print(f"the whole site has {await whole.result()}")
            first = await app.start(first_long_page, PAGES, words=500)
            print(f"the first long page to be counted has {await first.result()} words")


if __name__ == "__main__":
    asyncio.run(main())
