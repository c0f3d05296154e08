"""What is wrong with how a page looks: what nobody can get at, and text that does not stand out."""

from __future__ import annotations

from typing import Any

__all__ = ["faint", "out_of_reach"]

#: what is wider than the element that it is in, and is not in what keys can scroll
_OUT_OF_REACH = """inside => [...document.querySelectorAll(inside)].flatMap(area => {
    const right = area.getBoundingClientRect().right + 1;
    const byKeys = one => {
        const box = one.closest('[tabindex="0"]');
        return box && area.contains(box) && box !== area;
    };
    return [area, ...area.querySelectorAll('*')].filter(one => {
        const style = getComputedStyle(one);
        const scrolls = one.scrollWidth > one.clientWidth + 1 && one.clientWidth
            && /auto|scroll/.test(style.overflowX);
        const ends = one.getBoundingClientRect();
        return !byKeys(one) && (scrolls || (ends.width && ends.right > right));
    }).map(one => one.outerHTML.slice(0, 160));
})"""

#: text whose contrast with what it stands on is less than 4.5: in a drawing the shape below it or
#: the ground, elsewhere the colours of what it is in, one above the other
_FAINT = """inside => {
    const parse = text => {
        const numbers = text.startsWith('rgb') ? text.match(/[\\d.]+/g).map(Number) : [NaN];
        return numbers.length > 3 ? numbers : [...numbers, 1];
    };
    const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
    const light = colour => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => {
        const c = colour[i] / 255;
        return sum + part * (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    }, 0);
    const contrast = (text, behind) => {
        const [a, b] = [over(text, behind), behind].map(light).sort((x, y) => x - y);
        return (b + 0.05) / (a + 0.05);
    };
    const behind = one => {
        if (!one) return [255, 255, 255];
        const own = parse(getComputedStyle(one).backgroundColor);
        return own[3] === 1 ? own : over(own, behind(one.parentElement));
    };
    const drawnOn = (text, svg) => {
        const ground = parse(getComputedStyle(svg.querySelector('.ground')).fill);
        text.scrollIntoView({block: 'nearest', inline: 'nearest'});
        const box = text.getBoundingClientRect();
        const below = document
            .elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2)
            .filter(one => svg.contains(one) && /^(path|rect|circle)$/.test(one.tagName))
            .map(one => getComputedStyle(one).fill).find(fill => fill.startsWith('rgb'));
        return over(below ? parse(below) : ground, ground);
    };
    const faint = [];
    const look = (colour, ground, words) => {
        const found = contrast(parse(colour), ground);
        if (!(found >= 4.5)) faint.push([words, found]);
    };
    for (const area of document.querySelectorAll(inside)) {
        for (const text of area.querySelectorAll('svg.lancekit-picture text')) {
            const ground = drawnOn(text, text.closest('svg'));
            for (const one of [text, ...text.querySelectorAll('tspan')])
                look(getComputedStyle(one).fill, ground, text.textContent);
        }
        const texts = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const text = texts.currentNode, one = text.parentElement, words = text.data.trim();
            if (words && !one.closest('svg, style, :disabled') && one.checkVisibility())
                look(getComputedStyle(one).color, behind(one), words);
        }
    }
    return faint;
}"""


def out_of_reach(page: Any, inside: str) -> list[str]:
    """Return what stands out of some elements, or is scrolled in them by the mouse alone."""
    return page.evaluate(_OUT_OF_REACH, inside)  # type: ignore[no-any-return]


def faint(page: Any, inside: str) -> list[tuple[str, float]]:
    """Return texts in some elements that stand out too little, each with its contrast."""
    return page.evaluate(_FAINT, inside)  # type: ignore[no-any-return]
