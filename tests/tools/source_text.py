#!/usr/bin/env python3
"""The text of a source file, computed from docs/source-text-hash.md alone.

    python3 source_text.py FILE...           prints the normalized text of each file, or of each item
    python3 source_text.py --vectors JSON... compares lists of {name, kind, source, text}, where a list
                                             has `items`, each [key, line, text], instead of `text`

Imports nothing but the standard library and knows nothing of the program that wrote the bus.
"""

import codecs
import email
import email.policy
import hashlib
import html
import json
import re
import sys
import unicodedata
from pathlib import Path

BLANK = " \t\n\r\f\u00a0"
INVISIBLE = str.maketrans("", "", "\u00ad\u200b")


def normalize(text):
    text = unicodedata.normalize("NFC", text)
    text = re.sub("\r\n|[\r\v\f\x85]", "\n", text)
    text = "".join(c for c in text if c in "\t\n" or (unicodedata.category(c) != "Cc" and c != "\ufeff"))
    text = "\n".join(line.rstrip(" \t") for line in text.split("\n"))
    return re.sub("\n{3,}", "\n\n", text).strip("\n")


NONE, SPACE, LINE, PARAGRAPH = range(4)


def fence_for(source):
    return "`" * max([3] + [len(run) + 1 for run in re.findall("`+", source)])


class Page:
    """Text laid out in blocks."""

    def __init__(self):
        self.out, self.due, self.marks, self.item, self.emphasis = "", NONE, "", "", ""
        self.quotes, self.tables, self.code = 0, [], None

    def row(self):
        return self.tables[-1] if self.tables else None

    def gap(self, wanted):
        if self.code is not None:
            return
        row = self.row()
        if row and not row["broken"] and not row["said"]:
            return
        self.due = max(self.due, wanted)

    def settle(self):
        due, self.due = self.due, NONE
        row, tabs = self.row(), 0
        if row and not row["broken"]:
            if row["said"]:
                row["broken"] = due >= LINE
            else:
                tabs, row["tabs"], row["said"], row["any"] = row["tabs"], 0, True, True
        starts = not self.out or due >= LINE
        if self.out:
            self.out += ["", " ", "\n", "\n\n"][due]
        if starts:
            self.out += "> " * self.quotes
        self.out += "\t" * tabs + self.item
        if starts:
            self.out += self.marks
        self.out += self.emphasis
        self.item = self.marks = self.emphasis = ""

    def text(self, text):
        if self.code is not None:
            self.code += text
            return
        for index, word in enumerate(re.split("[" + BLANK + "]", text)):
            if index:
                self.gap(SPACE)
            word = word.translate(INVISIBLE)
            if word:
                self.settle()
                self.out += word

    def lines(self, text):
        self.settle()
        self.out += text.replace("\n", "\n" + "> " * self.quotes)

    def attach(self, text):
        if self.out:
            self.out += text
        else:
            self.text(text)

    def end_emphasis(self, mark):
        if self.emphasis.endswith(mark):
            self.emphasis = self.emphasis[:-len(mark)]
        else:
            self.attach(mark)

    def begin_code(self):
        if self.row():
            self.row()["broken"], self.row()["tabs"] = True, 0
        self.gap(PARAGRAPH)
        self.code = ""

    def end_code(self, fence):
        text, self.code = self.code, None
        if text.strip(BLANK):
            text = text.removeprefix("\n").rstrip().replace("\u00a0", " ")
            self.lines(fence + "\n" + text + "\n" + fence)
        self.gap(PARAGRAPH)

    def begin_quote(self):
        if self.code is None:
            self.gap(PARAGRAPH)
            self.quotes += 1

    def end_quote(self):
        if self.code is None:
            self.gap(PARAGRAPH)
            self.quotes -= 1

    def begin_item(self, depth, marker):
        if self.code is not None:
            return
        self.gap(LINE)
        self.item = "  " * depth + marker + " "

    def end_item(self):
        if self.code is not None:
            return
        self.item = ""
        self.gap(LINE)

    def begin_heading(self, level):
        if self.code is not None:
            return
        self.gap(PARAGRAPH)
        self.marks = "#" * level + " "

    def end_heading(self):
        if self.code is not None:
            return
        self.marks = ""
        self.gap(PARAGRAPH)

    def begin_table(self):
        if self.code is not None:
            return
        if self.row():
            self.row()["broken"], self.row()["tabs"] = True, 0
        self.gap(PARAGRAPH)
        self.tables.append(None)

    def end_table(self):
        if self.code is not None:
            return
        self.tables.pop()
        self.gap(PARAGRAPH)

    def end_row(self):
        if self.code is not None:
            return
        if self.tables:
            self.tables[-1] = None
        self.gap(LINE)

    def begin_row(self):
        if self.code is not None:
            return
        self.end_row()
        if self.tables:
            self.tables[-1] = {"cells": 0, "tabs": 0, "any": False, "said": False, "broken": False}

    def begin_cell(self):
        if self.code is not None:
            return
        row = self.row()
        if not row:
            return self.gap(LINE)
        row["cells"] += 1
        row["said"] = False
        if row["broken"]:
            return self.gap(LINE)
        row["tabs"] += row["cells"] > 1
        if row["any"]:
            self.due = NONE


# HTML

RAW = "script style title textarea iframe noembed noframes xmp".split()
HIDDEN = "template noscript svg object audio video canvas datalist annotation annotation-xml".split()
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
LISTS = ["ul", "ol", "menu", "dir"]
PARAGRAPHS = """address article aside details dialog dl fieldset figure footer form header hgroup hr
main nav p search section""".split()
LINES = """body caption center dd div dt figcaption head html legend optgroup option summary tbody
tfoot thead""".split()
APART = """audio button canvas embed iframe img input label meter object output progress select svg
textarea video""".split()
EMPTY = "area base br col embed hr img input link meta param source track wbr".split()
PARTS = ["thead", "tbody", "tfoot", "caption"]
CELL = ["td", "th", "caption", "table"]
BLOCKS = ["select"] + PARAGRAPHS + LINES + HEADINGS + LISTS + ["li", "blockquote", "pre", "listing", "table", "tr", "td", "th"]
TAG = re.compile(
    r"</?(?P<name>[a-zA-Z][^\s/>]*)"
    r"(?P<attributes>(?:[\s/]+|[^\s/>][^\s/>=]*(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s>\"'][^\s>]*))?)*)>", re.A)
ATTRIBUTE = re.compile(
    r"[\s/]*([^\s/>][^\s/>=]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"'][^\s>]*)))?", re.A)


def unescape(text):
    """Character references. Python leaves out control characters that the standard keeps."""
    def control(match):
        code = int(match[1] or match[2], 16 if match[1] else 10)
        return chr(code) if 0 < code < 32 and code != 13 or code == 127 else match[0]
    return html.unescape(re.sub(r"&#(?:[xX]([0-9a-fA-F]+)|([0-9]+));?", control, text, flags=re.A))


def hides_all(name, value):
    if name == "opacity":
        return re.fullmatch(r"[+-]?(?:0+\.?0*|\.0+)(?:[a-z]*|%)", value, re.A)
    return name == "display" and value == "none"


class Html:
    def __init__(self, source):
        self.source, self.page, self.title = source, Page(), None
        # Of `stack`: name, whether it hides its text, and all in it, whether text around it is visible, and shown.
        self.stack, self.hidden, self.gone, self.visible, self.lists = [], 0, 0, True, []
        self.in_code = self.in_heading = False
        self.fence = fence_for(source)
        self.read()
        while self.stack:
            self.pop()

    def read(self):
        source, at = self.source, 0
        while at < len(source):
            if source[at] != "<":
                end = source.find("<", at)
                end = len(source) if end < 0 else end
                self.text(unescape(source[at:end]))
            elif source.startswith("<!--", at):
                empty = re.match("<!---?>", source[at:at + 6])
                end = at + empty.end() if empty else source.find("-->", at + 4) + 3
                if end < at + 4:
                    return
            elif re.match(r"<[!?]|</[^a-zA-Z]", source[at:at + 3]):
                end = source.find(">", at) + 1
                if not end:
                    return
            elif re.match("</?[a-zA-Z]", source[at:at + 3]):
                tag = TAG.match(source, at)
                if not tag:
                    return
                end = tag.end()
                name = tag["name"].lower()
                if source[at + 1] == "/":
                    self.end_tag(name)
                else:
                    end = self.start_tag(name, tag["attributes"], end)
            else:
                self.text("<")
                end = at + 1
            at = end

    def seen(self):
        return self.visible and not self.gone

    def text(self, text):
        if self.seen():
            self.page.text(text)

    def start_tag(self, name, attributes, end):
        if name in APART and self.seen():
            self.page.gap(SPACE)
        if name in RAW:
            close = re.compile("</" + name + r"[\s/>]", re.I | re.A).search(self.source, end)
            stop = close.start() if close else len(self.source)
            if name == "title" and self.title is None and all(e[0] != "svg" for e in self.stack):
                self.title = " ".join(html.unescape(self.source[end:stop]).split())
            return stop
        found = {}
        for match in ATTRIBUTE.finditer(attributes):
            found[match[1].lower()] = match[2] or match[3] or match[4] or ""
        styles = [(key.strip().lower(), value.split("!")[0].strip().lower())
                  for key, _, value in (rule.partition(":") for rule in found.get("style", "").split(";"))]
        gone = name in HIDDEN or "hidden" in found or any(hides_all(*style) for style in styles)
        self.imply(name)
        visible, known = self.visible, {"hidden": False, "collapse": False, "visible": True}
        said = [known[value] for key, value in styles if key == "visibility" and value in known]
        if said:
            visible = said[-1]
        hides = gone or said[-1:] == [False]
        seen = visible and not gone and not self.gone
        shown = seen and not (self.in_code and name in ("pre", "listing"))
        if name in EMPTY or (name in ("svg", "math") and attributes.endswith("/")):
            if shown:
                self.empty(name)
            return end
        if name not in BLOCKS and not hides and not self.hidden:
            return end
        if len(self.stack) >= 256:
            if shown:
                self.page.gap(self.break_of(name))
            return end
        if shown:
            self.begin(name, found)
        self.hidden += hides
        self.gone += gone
        self.stack.append((name, hides, gone, self.visible, shown))
        self.visible = visible
        return end

    def break_of(self, name):
        if name in LINES + ["br", "tr", "li"]:
            return LINE
        if name == "select":
            return SPACE
        return PARAGRAPH if name in BLOCKS and name not in ("td", "th") else NONE

    def empty(self, name):
        if name == "br" and self.in_code:
            self.page.text("\n")
        elif name == "br":
            self.page.gap(SPACE if self.in_heading else LINE)
        else:
            self.page.gap(self.break_of(name))

    def begin(self, name, attributes):
        page = self.page
        number = attributes.get("start" if name == "ol" else "value", "").strip()
        number = int(number) if re.fullmatch("[+-]?[0-9]+", number, re.A) else None
        if name in HEADINGS:
            self.in_heading = True
            page.begin_heading(int(name[1]))
        elif name in LISTS:
            page.gap(LINE if self.lists else PARAGRAPH)
            self.lists.append(None if name != "ol" else 1 if number is None else number)
        elif name == "li":
            marker = "-"
            if self.lists and self.lists[-1] is not None:
                number = self.lists[-1] if number is None else number
                self.lists[-1] = number + 1
                marker = f"{number}."
            page.begin_item(max(len(self.lists) - 1, 0), marker)
        elif name == "blockquote":
            page.begin_quote()
        elif name in ("pre", "listing"):
            self.in_code = True
            page.begin_code()
        elif name == "table":
            page.begin_table()
        elif name == "tr":
            page.begin_row()
        elif name in ("td", "th"):
            page.begin_cell()
        else:
            page.gap(self.break_of(name))

    def pop(self):
        name, hides, gone, self.visible, shown = self.stack.pop()
        page = self.page
        self.hidden -= hides
        self.gone -= gone
        if not shown:
            return
        if name in HEADINGS:
            self.in_heading = False
            page.end_heading()
        elif name in LISTS:
            self.lists.pop()
            page.gap(LINE if self.lists else PARAGRAPH)
        elif name == "li":
            page.end_item()
        elif name == "blockquote":
            page.end_quote()
        elif name in ("pre", "listing"):
            self.in_code = False
            page.end_code(self.fence)
        elif name == "table":
            page.end_table()
        elif name == "tr":
            page.end_row()
        else:
            page.gap(self.break_of(name))

    def end_tag(self, name):
        if name in APART and self.seen():
            self.page.gap(SPACE)
        if name not in BLOCKS and not self.hidden and name != "br":
            return
        barrier = [] if name == "table" else ["table"] if name in PARTS + ["tr", "td", "th"] else CELL
        if not self.end([name], barrier) and self.seen() and name in ("p", "br"):
            self.empty(name)

    def end(self, names, barrier):
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place][0] in names:
                while len(self.stack) > place:
                    self.pop()
                return True
            if self.stack[place][0] in barrier:
                return False
        return False

    def imply(self, name):
        if not self.stack:
            return
        if name == "li":
            self.end(["li"], LISTS + CELL)
        elif name in ("dt", "dd"):
            self.end(["dt", "dd"], ["dl"] + CELL)
        elif name in ("option", "optgroup"):
            self.end(["option"], ["select", "datalist"] + CELL)
        elif name in ("td", "th"):
            self.end(["td", "th", "caption"], ["tr", "table"])
        elif name == "tr":
            self.end(["tr", "caption"], ["table"])
        elif name in PARTS:
            self.end(PARTS, ["table"]) or self.end(["tr"], ["table"])
        if name in HEADINGS and self.in_heading:
            self.end(HEADINGS, CELL)
        if name in BLOCKS and name not in ("select", "option", "optgroup", "legend") and any(
                entry[0] == "p" for entry in self.stack):
            self.end(["p"], CELL)
        if name in ("td", "th") and self.stack and self.stack[-1][0] in PARTS + ["table"]:
            if self.seen():
                self.page.begin_row()
            self.stack.append(("tr", False, False, self.visible, self.seen()))


# LaTeX

VERBATIM = ["verbatim", "verbatim*", "Verbatim", "lstlisting", "minted", "comment"]
DRAWINGS = ["tikzpicture", "pgfpicture", "picture", "comment", "filecontents"]
MATH = "equation align gather multline eqnarray displaymath math flalign alignat dmath".split()
TABLES = "tabular tabular* tabularx tabulary longtable supertabular".split()
THEOREMS = {name: name.capitalize() for name in """abstract theorem lemma proposition corollary
definition example remark claim conjecture assumption proof""".split()}
LEVELS = {"part": 1, "chapter": 1, "section": 2, "frametitle": 2, "subsection": 3,
          "subsubsection": 4, "paragraph": 5, "subparagraph": 6}
LETTERS = dict(zip("ss ae AE oe OE o O aa AA l L i j S P copyright pounds euro texteuro dag ddag ldots "
                   "dots textellipsis textendash textemdash textquoteleft textquoteright "
                   "textquotedblleft textquotedblright textbackslash textasciitilde textasciicircum "
                   "textbar textless textgreater textdegree texttimes textbullet textregistered "
                   "texttrademark LaTeX TeX".split(),
                   "ß æ Æ œ Œ ø Ø å Å ł Ł ı ȷ § ¶ © £ € € † ‡ … … … – — ‘ ’ “ ” \\ ~ ^ | < > ° × • ® ™ "
                   "LaTeX TeX".split()))
DROPPED = {}
for count, names in [
    (1, """label vspace hspace includegraphics bibliography bibliographystyle input include usepackage
     documentclass pagestyle thispagestyle index nocite hypersetup graphicspath color cline cmidrule
     title author date affiliation institute phantom RequirePackage theoremstyle hyphenation
     usetikzlibrary tikz addbibresource captionsetup cfoot chead enlargethispage fancyfoot fancyhead
     fancyhf geometry lfoot lhead linespread lstinputlisting lstset newcounter newlength pagenumbering
     pgfplotsset refstepcounter rfoot rhead selectlanguage setdefaultlanguage setmainfont
     setmainlanguage setmathfont setmonofont setotherlanguage setsansfont setstretch sisetup
     stepcounter subfile tikzset urlstyle usecolortheme usefonttheme usetheme"""),
    (2, """setlength addtolength setcounter addtocounter newtheorem markboth fontsize counterwithin
     DeclareSIUnit DeclareUnicodeCharacter lstdefinelanguage lstdefinestyle numberwithin
     PassOptionsToPackage rule setbeamercolor setbeamerfont setbeamertemplate"""),
    (3, "newenvironment renewenvironment definecolor addcontentsline crefname Crefname"),
]:
    DROPPED.update(dict.fromkeys(names.split(), count))
ACCENTS = dict(zip("`'^~=u.\"rHvdckb", "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b"
                   "\u030c\u0323\u0327\u0328\u0331"))
SYMBOLS = dict(zip("""metre meter gram second ampere kelvin mole candela becquerel celsius degreeCelsius
                   coulomb farad gray hertz henry joule lumen lux newton ohm pascal radian siemens
                   sievert steradian tesla volt watt weber hectare litre liter tonne day hour minute
                   degree arcminute arcsecond electronvolt dalton decibel bar byte bit percent
                   angstrom""".split(),
                   """m m g s A K mol cd Bq °C °C C F Gy Hz H J lm lx N Ω Pa rad S Sv sr T V W Wb ha L L
                   t d h min ° ′ ″ eV Da dB bar B bit % Å""".split()))
PREFIXES = dict(zip("""atto femto pico nano micro milli centi deci deca hecto kilo mega giga tera peta exa
                    kibi mebi gibi tebi""".split(),
                    "a f p n µ m c d da h k M G T P E Ki Mi Gi Ti".split()))
QUANTITIES = dict(SI=2, qty=2, si=1, unit=1, num=1, ang=1, SIrange=3, qtyrange=3, numrange=2)
EMPHASIS = {"emph": "*", "textit": "*", "textsl": "*", "textbf": "**", "texttt": "`"}
EMPHASIS_MARKS = set(EMPHASIS.values())
VERB = re.compile(r"\\(?:verb\*?|lstinline)(?:\{([^}\n]*)\}|([^\w\s])(.*?)\2)")

ADDRESS = re.compile(r"\\(?:url|href|path|nolinkurl)\{[^}\n]*\}")


def without_comments(source):
    out, end, joins = "", None, False
    for line in re.findall(r".*\n|.+", source):
        if end:
            out += line
            end = None if end in line else end
            continue
        shown = line.lstrip(" \t") if joins else line
        at = 0
        while at < len(shown) and shown[at] != "%":
            verb = VERB.match(shown, at) or ADDRESS.match(shown, at)
            at = verb.end() if verb else at + (2 if shown[at] == "\\" else 1)
        joins = at < len(shown)
        if not joins and not shown.strip() and not out.endswith("\n"):
            out += "\n"
        out += shown[:at]
        begins = re.findall(r"\\begin\{([^}]*)\}", shown[:at])
        if begins and begins[-1] in VERBATIM:
            close = "\\end{%s}" % begins[-1]
            end = close if shown[:at].rfind(close) < shown[:at].rfind("\\begin{") else None
    return out


LISTING = re.compile(r"\\begin\{(%s)\}.*?\\end\{\1\}" % "|".join(map(re.escape, VERBATIM)), re.S)
COMMAND = re.compile(r"\\([a-zA-Z]+|.|$)", re.S)


NEWIF = re.compile(r"\\newif\s*\\(if([a-zA-Z]+))")


def without_branches(source):
    """The source without the branches of conditions that are no text."""
    def end_of(at, to_else):
        depth = 1
        for match in COMMAND.finditer(source, at):
            word = match[1]
            if word == "fi":
                depth -= 1
            elif word.startswith("if") and word.isalpha() and word not in ("iff", "ifthenelse"):
                depth += 1
            if not depth or to_else and word == "else" and depth == 1:
                return re.compile(r"[ \t]*").match(source, match.end()).end()
        return None
    false = {"iffalse"} | {match[1] for match in NEWIF.finditer(source)
                           if "\\" + match[2] + "true" not in source}
    out, at, ends = "", 0, True
    for match in iter(lambda: COMMAND.search(source, at), None):
        out += source[at:match.start()]
        kept = (LISTING.match(source, match.start()) or VERB.match(source, match.start())
                or NEWIF.match(source, match.start()) or match)
        at = kept.end()
        if kept is match and ends and (match[1] == "else" or match[1] in false):
            end = end_of(at, match[1] != "else")
            if end is not None:
                at = end
                continue
            ends = False
        out += kept[0]
    return out + source[at:]


def group(text, at):
    """The content of the group that begins at a place, and the place after it."""
    start = re.compile(r"\s*").match(text, at).end()
    if not text.startswith("{", start):
        return None
    depth, place = 0, start
    while place < len(text):
        if text[place] == "\\":
            place += 1
        elif text[place] == "{":
            depth += 1
        elif text[place] == "}":
            depth -= 1
            if not depth:
                return text[start + 1:place], place + 1
        place += 1
    return None


def optional(text, at):
    if not text.startswith("[", at):
        return None
    depth = 0
    for place in range(at + 1, len(text)):
        c = text[place]
        depth += (c == "{") - (c == "}")
        if depth < 0 or re.compile(r"\n[ \t]*\n").match(text, place):
            return None
        if c == "]" and not depth:
            return text[at + 1:place], place + 1
    return None


def after_optionals(text, at):
    while found := optional(text, at):
        at = found[1]
    return at


DEFINES = "newcommand renewcommand providecommand DeclareRobustCommand".split()
DEFINITION = re.compile(
    r"\\(?P<by>newcommand|renewcommand|providecommand|DeclareRobustCommand)(?![a-zA-Z])\*?\s*"
    r"(?:\{\s*\\(?P<inner>[a-zA-Z]+)\s*\}|\\(?P<outer>[a-zA-Z]+))\s*"
    r"|\\def(?![a-zA-Z])\s*\\(?P<name>[a-zA-Z]+)(?P<parameters>(?:#[1-9])*)")
EXPANDED_MAX, DEPTH_MAX = 262_144, 16


class Defined:
    """The environments and macros that a source defines."""

    def __init__(self, source):
        self.theorems, self.macros, self.left = dict(THEOREMS), {}, EXPANDED_MAX
        for match in re.finditer(r"\\newtheorem\**", source):
            name = group(source, match.end())
            words = name and group(source, after_optionals(source, name[1]))
            if words:
                self.theorems[name[0].strip()] = words[0].strip()
        for match in DEFINITION.finditer(source):
            name, at, count, default = match["inner"] or match["outer"], match.end(), 0, None
            if match["name"]:
                name, numbers = match["name"], match["parameters"].replace("#", "")
                count = len(numbers)
                if numbers != "123456789"[:count]:
                    continue
            elif found := optional(source, at):
                if not re.fullmatch("[0-9]", found[0].strip()):
                    continue
                count, at = int(found[0]), re.compile(r"\s*").match(source, found[1]).end()
                found = optional(source, at) if count else None
                if found:
                    default, at = found
            body = group(source, at)
            if body and (match["by"] != "providecommand" or name not in self.macros):
                self.macros[name] = (count, default, body[0])

    def allows(self, text):
        size = len(text.encode())
        if size > self.left:
            return False
        self.left -= size
        return True

    def with_environments(self, source):
        halves = {name: known[2] for name, known in self.macros.items()
                  if not known[0] and known[2].count("\\begin") != known[2].count("\\end")}
        for name in halves:
            del self.macros[name]

        def replaced(match):
            body = halves.get(match[1])
            return match[0] if body is None or not self.allows(body) else body
        return re.sub(r"\\([a-zA-Z]+)", replaced, source) if halves else source


def unit(source):
    """The units of siunitx as they are printed."""
    out, prefix, power, divides = "", "", "", False
    tokens = re.compile(r"\\(tothe|raiseto)\s*\{([^}]*)\}|\\([a-zA-Z]+)|(.)", re.S)
    for raised, exponent, name, sign in tokens.findall(source):
        if raised:
            out += "^" + exponent.strip()
        elif sign:
            out += " " if sign in ".~" else "" if sign in "{}\\" or sign.isspace() else sign
        elif name == "per":
            divides = True
        elif name in ("square", "cubic"):
            power = "²" if name == "square" else "³"
        elif name in ("squared", "cubed"):
            out += "²" if name == "squared" else "³"
        elif name in PREFIXES:
            prefix = PREFIXES[name]
        elif name not in ("tothe", "raiseto"):
            before = ("/" if out else "1/") if divides else " " if out else ""
            out += before + prefix + SYMBOLS.get(name, name) + power
            prefix, power, divides = "", "", False
    return out


def quantity(number, units):
    units = unit(units)
    return number.strip() + ("" if not units or units[0] in "′″" or units == "°" else " ") + units


class Latex:
    def __init__(self, source, defined, outer=None):
        self.source, self.at, self.defined = source, 0, defined
        self.page = outer.page if outer else Page()
        self.lists = outer.lists if outer else []
        self.fence = outer.fence if outer else fence_for(source)
        self.depth = outer.depth + 1 if outer else 0
        self.outer_table = bool(outer) and outer.in_table()
        self.stack = []
        while self.at < len(source):
            self.step()
        while self.stack:
            self.close(self.stack.pop())

    def step(self):
        source, at, page = self.source, self.at, self.page
        plain = re.compile(r"[^\\${}\n~&`'\-]+").match(source, at)
        if plain:
            page.text(plain[0])
            self.at = plain.end()
        elif source[at] == "\\":
            self.command()
        elif source[at] == "$":
            mark = "$$" if source.startswith("$$", at) else "$"
            found = re.compile(r"((?:\\.|(?!\n[ \t]*\n)[^\\$]|" + (r"\$(?!\$)" if mark == "$$" else "(?!)") + ")*?)"
                               + re.escape(mark), re.S).match(source, at + len(mark))
            if not found:
                page.text(mark)
                self.at += len(mark)
                return
            self.at = found.end()
            self.math(source[at:self.at], mark == "$$")
        elif source[at] == "{":
            self.push(None, None)
            self.at += 1
        elif source[at] == "}":
            if self.stack and self.stack[-1][0] is None:
                ended = self.stack.pop()
                self.close(ended)
                if ended[1] == "argument" and source.startswith("}{", at):
                    page.text(" ")
                    self.push(None, "argument")
                    self.at += 1
            self.at += 1
        elif source[at] == "\n":
            blank = re.compile(r"\s*").match(source, at)
            page.gap(PARAGRAPH if blank[0].count("\n") > 1 and not self.in_table() else SPACE)
            self.at = blank.end()
        elif source[at] == "&" and self.in_table():
            page.begin_cell()
            self.at += 1
        else:
            for mark, text in [("---", "—"), ("--", "–"), ("``", "“"), ("''", "”"), ("`", "‘"),
                               ("'", "’"), ("~", " "), (source[at], source[at])]:
                if source.startswith(mark, at):
                    page.text(text)
                    self.at += len(mark)
                    return

    def push(self, name, end):
        if len(self.stack) < 256:
            self.stack.append((name, end))

    def in_table(self):
        named = [entry for entry in self.stack if entry[0] is not None]
        return named[-1][1] == "table" if named else self.outer_table

    def math(self, text, display):
        if not display:
            return self.page.text(text)
        self.page.gap(PARAGRAPH)
        self.page.lines(text)
        self.page.gap(PARAGRAPH)

    def close(self, entry):
        end, page = entry[1], self.page
        if end == "list":
            self.lists.pop()
            page.end_item()
            page.gap(LINE if self.lists else PARAGRAPH)
        elif end == "quote":
            page.gap(PARAGRAPH)
            page.quotes -= 1
        elif end == "table":
            page.end_row()
            page.end_table()
        elif end == "heading":
            page.end_heading()
        elif end == "paragraph":
            page.gap(PARAGRAPH)
        elif end == "argument":
            pass
        elif end in EMPHASIS_MARKS:
            page.end_emphasis(end)
        elif end:
            page.attach(end)

    def argument(self):
        self.at = after_optionals(self.source, self.at)
        found = group(self.source, self.at)
        if found:
            self.at = found[1]
            return found[0]
        return None

    def enter(self, end):
        self.at = after_optionals(self.source, self.at)
        brace = re.compile(r"\s*\{").match(self.source, self.at)
        if brace:
            self.at = brace.end()
            self.push(None, end)

    def command(self):
        source, page = self.source, self.page
        verb = VERB.match(source, self.at)
        if verb:
            page.text(verb[1] if verb[1] is not None else verb[3])
            self.at = verb.end()
            return
        name = re.compile(r"\\([a-zA-Z]+)\*?").match(source, self.at)
        if name:
            start, self.at = self.at, name.end()
            return self.named(name[1], start)
        mark, start = source[self.at + 1:self.at + 2], self.at
        self.at += 2
        if mark == "\\":
            self.at += source.startswith("*", self.at)
            self.at = after_optionals(source, self.at)
            self.new_row() if self.in_table() else self.line_break()
        elif mark in ("(", "["):
            close = source.find("\\)" if mark == "(" else "\\]", self.at)
            if close >= 0:
                self.at = close + 2
                self.math(source[start:self.at], mark == "[")
        elif mark and mark in "%&#_${}":
            page.text(mark)
        elif mark and mark in " \n\t,;:":
            page.text(" ")
        elif mark and mark in ACCENTS:
            self.accent(mark)

    def line_break(self):
        in_heading = any(end == "heading" for _, end in self.stack)
        self.page.gap(SPACE if in_heading else LINE)

    def new_row(self):
        self.page.begin_row()
        self.page.begin_cell()

    def accent(self, mark):
        at = re.compile(r"[ \t]*").match(self.source, self.at).end()
        found = group(self.source, at)
        if found:
            base, end = found[0].strip(), found[1]
        else:
            end = at + (2 if self.source.startswith("\\", at) else 1)
            base = self.source[at:end]
        base = {"\\i": "i", "\\j": "j"}.get(base, base)
        if base[:1].isalpha():
            self.at = end
            self.page.text(unicodedata.normalize("NFC", base[0] + ACCENTS[mark]) + base[1:])

    def after_word(self):
        blank = re.compile(r"[ \t]+(?![{\n \t])").match(self.source, self.at)
        if blank:
            self.at = blank.end()

    def named(self, name, start):
        page, source = self.page, self.source
        if name == "begin":
            self.begin(start)
        elif name == "end":
            name = self.argument()
            places = [i for i, entry in enumerate(self.stack) if name is not None and entry[0] == name]
            while places and len(self.stack) > places[-1]:
                self.close(self.stack.pop())
        elif name in LEVELS:
            page.begin_heading(LEVELS[name])
            self.enter("heading")
        elif name in LETTERS:
            page.text(LETTERS[name])
            self.after_word()
        elif name in DROPPED:
            if name == "cmidrule":
                self.at = after_optionals(source, self.at)
                trim = re.compile(r"\([^)\n{]*\)").match(source, self.at)
                self.at = trim.end() if trim else self.at
            for _ in range(DROPPED[name]):
                self.argument()
            if name == "newtheorem":
                self.at = after_optionals(source, self.at)
        elif name in DEFINES + ["DeclareMathOperator", "def", "gdef", "edef", "xdef"]:
            plain = re.compile(r"\s*\\[a-zA-Z]*").match(source, self.at)
            if plain:
                self.at = plain.end()
            else:
                self.argument()
            if name.endswith("def"):
                parameters = re.compile(r"[^{\n]*").match(source, self.at)
                self.at = parameters.end() if parameters.end() < len(source) else self.at
            self.argument()
        elif name == "item":
            marker = "-"
            if self.lists and self.lists[-1]:
                marker = f"{self.lists[-1]}."
                self.lists[-1] += 1
            page.end_item()
            page.begin_item(max(len(self.lists) - 1, 0), marker)
            label = optional(source, re.compile(r"[ \t]*").match(source, self.at).end())
            if label:
                self.at = label[1]
                page.text(Latex(label[0], self.defined).page.out.rstrip(":") + ": ")
        elif name in ("footnote", "footnotetext"):
            if group(source, after_optionals(source, self.at)):
                page.gap(SPACE)
                page.text("(")
                self.enter(")")
        elif name in ("caption", "captionof"):
            words = "Caption: "
            for entry, _ in self.stack:
                entry = (entry or "").rstrip("*")
                if entry in ("figure", "wrapfigure", "subfigure"):
                    words = "Figure: "
                elif entry in ("table", "wraptable", "longtable"):
                    words = "Table: "
            if name == "captionof":
                self.argument()
            page.gap(PARAGRAPH)
            page.text(words)
            self.enter("paragraph")
        elif name in ("url", "path", "nolinkurl"):
            page.text((self.argument() or "").strip())
        elif name == "href":
            address = re.sub(r"\\([#%_&])", r"\1", self.argument() or "")
            self.enter(f" ({address.strip()})")
        elif name in ("multirow", "multicolumn", "resizebox", "textcolor", "foreignlanguage",
                      "colorbox", "parbox", "raisebox", "scalebox"):
            for _ in range(2 if name[0] == "m" or name == "resizebox" else 1):
                self.argument()
            self.enter(None)
        elif name in EMPHASIS:
            outside = len(self.stack)
            self.enter(EMPHASIS[name])
            if len(self.stack) > outside:
                page.emphasis += EMPHASIS[name]
        elif name == "bibitem":
            page.begin_item(0, f"- [{(self.argument() or '').strip()}]")
        elif name in ("par", "newpage", "clearpage", "bigskip", "medskip", "smallskip"):
            page.gap(PARAGRAPH)
        elif name in ("newline", "linebreak"):
            self.line_break()
        elif name == "tabularnewline" and self.in_table():
            self.new_row()
        elif name in ("quad", "qquad", "space", "thinspace"):
            page.text(" ")
        elif name in "cvuHkrdb" and len(name) == 1:
            self.accent(name)
        elif name.startswith("cite") or name in """autocite parencite textcite footcite ref eqref
                autoref cref Cref pageref nameref vref""".split():
            keys = (self.argument() or "").split(",")
            page.text("[" + "; ".join(key.strip() for key in keys) + "]")
        elif name in self.defined.macros:
            self.call(*self.defined.macros[name])
        elif name in QUANTITIES:
            given = [self.argument() for _ in range(QUANTITIES[name])]
            if None in given:
                return
            if name in ("SIrange", "qtyrange", "numrange"):
                given[:2] = [f"{given[0].strip()}–{given[1].strip()}"]
            if name in ("si", "unit"):
                page.text(unit(given[0]))
            elif name == "ang":
                parts = zip([part.strip() for part in given[0].split(";")], "°′″")
                page.text("".join(part + sign for part, sign in parts if part))
            else:
                page.text(quantity(given[0], given[1] if len(given) > 1 else ""))
        else:
            self.at = after_optionals(source, self.at)
            self.after_word()
            if source.startswith("{", self.at):
                self.enter("argument")

    def call(self, count, default, body):
        arguments = []
        if default is not None:
            found = optional(self.source, self.at)
            arguments.append(found[0] if found else default)
            self.at = found[1] if found else self.at
        while len(arguments) < count:
            found = group(self.source, self.at)
            if found:
                argument, self.at = found
            else:
                token = re.compile(r"\s*(\\[a-zA-Z]+|\\.|.|)", re.S).match(self.source, self.at)
                argument, self.at = token[1], token.end()
            arguments.append(argument)
        places = re.compile("#([1-9])")
        text = places.sub(lambda m: arguments[int(m[1]) - 1] if int(m[1]) <= count else m[0], body)
        if self.depth < DEPTH_MAX and self.defined.allows(text):
            Latex(text, self.defined, self)

    def begin(self, start):
        source, page = self.source, self.page
        name = self.argument()
        if name is None:
            return
        base, close = name.rstrip("*"), "\\end{%s}" % name
        end = source.find(close, self.at)
        body = source[self.at:] if end < 0 else source[self.at:end]
        after = len(source) if end < 0 else end + len(close)
        if base in MATH:
            self.at = after
            self.math(source[start:after], base != "math")
        elif name in VERBATIM + DRAWINGS:
            self.at = after
            if name not in DRAWINGS:
                body = body[after_optionals(body, 0):]
                if name == "minted" and group(body, 0):
                    body = body[group(body, 0)[1]:]
                page.begin_code()
                page.text(body.lstrip(" \t"))
                page.end_code(self.fence)
        elif name in TABLES:
            for _ in range(2 if name in ("tabular*", "tabularx", "tabulary") else 1):
                self.argument()
            page.begin_table()
            self.push(name, "table")
            self.new_row()
        elif name in ("itemize", "enumerate", "description", "thebibliography"):
            if name == "thebibliography":
                self.argument()
            self.at = after_optionals(source, self.at)
            page.gap(LINE if self.lists else PARAGRAPH)
            self.lists.append(1 if name == "enumerate" else None)
            self.push(name, "list")
        elif name in ("quote", "quotation", "verse"):
            page.gap(PARAGRAPH)
            page.quotes += 1
            self.push(name, "quote")
        elif name == "frame":
            self.at = after_optionals(source, self.at)
            page.gap(PARAGRAPH)
            self.push(name, "paragraph")
            if source.startswith("{", self.at):
                page.begin_heading(2)
                self.enter("heading")
        else:
            page.gap(PARAGRAPH)
            self.push(name, "paragraph")
            if base in self.defined.theorems:
                label = optional(source, re.compile(r"[ \t]*").match(source, self.at).end())
                if label:
                    self.at = label[1]
                    words = Latex(label[0], self.defined).page.out
                    page.text(f"{self.defined.theorems[base]} ({words}). ")
                else:
                    page.text(f"{self.defined.theorems[base]}. ")
                return
            self.at = after_optionals(source, self.at)
            counts = dict(minipage=1, multicols=1, adjustbox=1, column=1, subfigure=1, spacing=1,
                          wrapfigure=2, wraptable=2)
            for _ in range(counts.get(base, 0)):
                self.argument()


def latex(source):
    source = without_branches(without_comments(source))
    defined = Defined(source)
    source = source.partition("\\begin{document}")[2] if "\\begin{document}" in source else source
    document = defined.with_environments(source.partition("\\end{document}")[0])
    return Latex(document, defined).page.out


FENCES = {"---": ("---", "..."), "+++": ("+++",), "{": ("}",)}


def front_matter(source):
    """The lines between the rules and the body, or None."""
    lines = source.splitlines(True) if "\r" not in source else re.findall(r"[^\n]*\n|[^\n]+", source)
    while lines and not lines[0].strip():
        lines.pop(0)
    ends = FENCES.get(lines[0].rstrip()) if lines else None
    for number, line in enumerate(lines[1:] if ends else [], 1):
        if line.rstrip() in ends:
            return lines[0].rstrip(), lines[1:number], "".join(lines[number + 1:])
    return None


FRONT_NAME = re.compile(r"(?![*+\-><|\[(!`~=&]|[^\s:]*[.)](?:\s|:))[^\s,;!:]+(?: [^\s,;!:]+){0,2}[ \t]*:(?:[ \t\r]|\n|$)")


FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)")
QUOTE = re.compile(r"[ \t]*>[ \t]?")
ALERT = re.compile(r"[ \t]*>[ \t]*\[![a-zA-Z_-]+\][+-]?[ \t]*")
NOTE = re.compile(r"\s*\[(?://|comment)\]: \s*(?:#|<>)", re.I)


def without_alerts(text):
    """Markdown with alerts as plain paragraphs."""
    out, fence, inside = "", None, False
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        bare, run = line.rstrip("\r\n"), FENCE.match(line.rstrip("\r\n"))
        was_open = fence
        if not fence and run and not (run[1][0] == "`" and "`" in run[2]):
            fence = run[1]
        elif fence and run and run[1].startswith(fence) and not run[2].strip():
            fence = None
        code = was_open or fence
        alert = not code and ALERT.match(bare)
        quote = not code and QUOTE.match(bare)
        if alert:
            line = "" if alert.end() == len(bare) else line[alert.end():]
        elif quote and inside:
            line = line[quote.end():]
        inside = bool(alert or inside and quote)
        out += line
    return out


def without_notes(text):
    """Markdown without comments of Obsidian and links that are notes."""
    out, at, begins, fence = "", 0, True, None
    while at < len(text):
        line_end = text.find("\n", at) + 1 or len(text)
        line = text[at:line_end].rstrip("\r\n")
        was_open = fence
        if begins:
            run = FENCE.match(line)
            if not fence and run and not (run[1][0] == "`" and "`" in run[2]):
                fence = run[1]
            elif fence and run and run[1].startswith(fence) and not run[2].strip():
                fence = None
        if was_open or fence:
            out, at, begins = out + text[at:line_end], line_end, True
            continue
        if begins and NOTE.match(line):
            at = line_end
            continue
        start, place = None, at
        while start is None and (run := re.compile("`+|%+").search(text, place, line_end)):
            place, before = run.end(), text[:run.start()][-1:]
            if run[0][0] == "`":
                close = text.find(run[0], place, line_end)
                place = place if close < 0 else close + len(run[0])
            elif len(run[0]) > 1 and (not before or before.isspace() or before in "([{>\"'*_"):
                start = run.start()
        if start is None:
            out, at, begins = out + text[at:line_end], line_end, True
            continue
        block = begins and not text[at:start].strip()
        close = text.find("%%", start + 2, len(text) if block else line_end)
        if close < 0:
            out, at = out + text[at:start + 2], start + 2
        else:
            out, at = out + text[at:start], close + 2
        begins = False
    return out


def markdown(source):
    return without_notes(without_alerts(below_front_matter(source)))


def below_front_matter(source):
    found = front_matter(source)
    if not found:
        return source
    said = [line for line in found[1] if line.strip() and not line.startswith("#")]
    is_front = not said or found[0] == "{"
    if said and found[0] == "---":
        is_front = re.match(r"\{(?![{%])", said[0]) or FRONT_NAME.match(said[0])
    elif said and found[0] == "+++":
        is_front = re.match(r"\[|[\w\-.\"' \t]*=", said[0])
    return found[2] if is_front else source


def plain(source):
    found = front_matter(source)
    named = re.compile(r"[\w\-]+[ \t]*[:=]")
    if not found or found[0] == "{":
        return source
    said = [line for line in found[1] if line.strip() and not line.startswith("#")]
    begins = not said or named.match(said[0])
    return found[2] if begins and all(line[0] in " \t-" or named.match(line) for line in said) else source


# reStructuredText

DIRECTIVE = re.compile(r"\.\. ([A-Za-z0-9][A-Za-z0-9._+:-]*)::(?:[ \t]|$)")
CODE = ["code", "code-block", "sourcecode", "parsed-literal"]
PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")


def lines_of(source):
    return [line.rstrip(" \t\r") for line in source.removesuffix("\n").split("\n")] if source else []


def indent(line):
    return len(line) - len(line.lstrip(" \t\r"))


def plain_or_rst(source):
    """A `txt` file that has a directive is read as reStructuredText."""
    body = plain(source)
    return rst_body(body) if any(map(DIRECTIVE.match, lines_of(body))) else body


def rst_title(lines, at):
    """The title at a line, its style and how many lines it takes; None where there is none."""
    line, after, third = (lines[at:at + 3] + ["", ""])[:3]
    for style, title, under in [((line[:1], True), after, third), ((after[:1], False), line, after)]:
        if not title or PUNCTUATION.fullmatch(title) or not PUNCTUATION.fullmatch(under):
            continue
        if style[1] and line != under or not style[1] and indent(title):
            continue
        title = title.lstrip(" \t\r")
        if len(under) >= min(4, len(title)):
            return title, style, 3 if style[1] else 2
    return None


def rst_code(lines, at):
    """The number of lines of code below a line."""
    end = at + 1
    while end < len(lines) and (not lines[end] or indent(lines[end]) > indent(lines[at])):
        end += 1
    while end > at + 1 and not lines[end - 1]:
        end -= 1
    return end - at - 1


def rst_body(source):
    lines, out, styles, fence = lines_of(source), [], [], fence_for(source)
    at, begins = 0, True
    while at < len(lines):
        line = lines[at]
        title = rst_title(lines, at) if begins else None
        begins = True
        if title:
            words, style, width = title
            styles += [] if style in styles else [style]
            out.append("#" * min(6, styles.index(style) + 1) + " " + words)
            at += width
            continue
        found = DIRECTIVE.match(line)
        announces = found[1] in CODE if found else line.endswith("::") and not line.startswith(".. ")
        rule = PUNCTUATION.fullmatch(line) and len(line) >= 4
        code = rst_code(lines, at) if announces and not rule else 0
        begins = not lines[at + code]
        if not code:
            out += [] if rule else [line]
            at += 1
            continue
        words = line.rstrip(":").rstrip(" \t\r")
        out += [words + ":"] if words and not found else []
        block = lines[at + 1:at + 1 + code]
        while block and not block[0]:
            block.pop(0)
        while found and block and block[0].lstrip(" \t\r").startswith(":"):
            block.pop(0)
        while block and not block[0]:
            block.pop(0)
        if block:
            least = min(indent(one) for one in block if one)
            out += [fence] + [one[least:] for one in block] + [fence]
        at += 1 + code
    return "\n".join(out)


# Mail


def mail(data):
    """The text of a message."""
    message = email.message_from_bytes(data, policy=email.policy.default)
    return "\n\n".join(mail_texts(message, False) or mail_texts(message, True))


def decoded(data, charset):
    """The characters of a part."""
    try:
        name = codecs.lookup(charset).name
    except LookupError:
        name = "ascii"
    if name not in ("ascii", "iso8859-1", "cp1252"):
        return data.decode(name, "replace")
    try:
        return data.decode("utf-8" if name == "ascii" else "ascii")
    except UnicodeDecodeError:
        return "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in data)


def mail_texts(part, attached):
    """The texts of a part that are not empty: those that are shown, or those that are attached."""
    kind = part.get_content_type()
    if part.is_multipart() and part.get_content_maintype() == "multipart":
        inner = [(one.get_content_type(), mail_texts(one, attached)) for one in part.iter_parts()]
        if kind != "multipart/alternative":
            return [text for _, texts in inner for text in texts]
        inner = [(kind, texts) for kind, texts in inner if texts]
        plain = [texts for kind, texts in inner if kind == "text/plain"]
        return (plain or [texts for _, texts in inner] or [[]])[0]
    is_attached = part.get_content_disposition() == "attachment"
    shown = kind in ("text/plain", "text/html") and not is_attached
    if not (part.get_content_maintype() == "text" and is_attached if attached else shown):
        return []
    text = decoded(part.get_payload(decode=True), part.get_content_charset("us-ascii"))
    text = Html(text).page.out if kind == "text/html" else text.strip()
    return [text] if text else []


# Lists

TEXTS = ["content_text", "text", "content", "body", "content_html"]
IDS = ["id", "_id", "guid", "uuid"]
TITLES = "title subject headline heading name".split()
AUTHORS = "author authors from sendername sender creator by byline userprofile speaker username user".split()
TIMES = """timestamp tsabs tsabsms timestampms date datetime datepublished publishedat pubdate isodate published ts time
    created createdat createtime sentat updated updatedat datemodified""".split()
CONTEXT = """tags labels categories keywords url link permalink externalurl image bannerimage id uuid guid language lang
    project projectname to cc role feed mailbox conversationid publish public private draft visibility localonly""".split()
LIST_KINDS = ["json", "jsonl", "ndjson", "csv", "tsv"]
BLANKS = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder()


def pieces(raw):
    """The parts of an array, or the named parts of an object, as they are written."""
    at = BLANKS.match(raw, BLANKS.match(raw).end() + 1).end()
    while raw[at] not in "]}":
        name = None
        if raw.lstrip(" \t\r\n")[0] == "{":
            name, at = json.decoder.scanstring(raw, at + 1)
            at = BLANKS.match(raw, BLANKS.match(raw, at).end() + 1).end()
        _, end = DECODER.raw_decode(raw, at)
        yield name, at, raw[at:end]
        at = BLANKS.match(raw, end).end()
        if raw[at] == ",":
            at = BLANKS.match(raw, at + 1).end()


def shown(raw):
    """A JSON value as text, and whether it is words; None where there is nothing to show."""
    value = json.loads(raw)
    if isinstance(value, str):
        return value, True
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value), True
    compact = re.sub(r'"(?:[^"\\]|\\.)*"|[ \t\r\n]+', lambda m: m[0] if m[0][0] == '"' else "", raw)
    return None if compact in ("null", "{}") else (compact, False)


def record(pairs):
    """The id, the text that names it, and all of its text, of a record of (name, text, whether it is words)."""
    own, text, ident = None, None, None
    for wanted in TEXTS:
        found = [t for name, t, words in pairs if name.lower() == wanted and words and t.strip()]
        if found and own is None:
            own = Html(found[0]).page.out if wanted == "content_html" else found[0]
            beside = [pair for pair in pairs if pair[1].strip() and pair[0].lower() != wanted]
            text = "\n\n".join(part for part in (own, "\n".join(facts(beside))) if part)
    if own is None:
        own = text = "\n".join(f"{name}: {t}" for name, t, _ in pairs if t.strip())
    for wanted in IDS:
        named = next(((t.strip(), words) for name, t, words in pairs if name.lower() == wanted), None)
        if ident is None and named and named[0] and len(named[0].encode()) <= 200:
            plain = all(unicodedata.category(c) != "Cc" for c in named[0])
            if plain if named[1] else re.fullmatch("-?[0-9]+", named[0]):
                ident = named[0]
    return ident, own, text


def facts(beside):
    """The lines of what stands beside the text of a record and is no context of it."""
    names = [re.sub("[-_ ]", "", name).lower() for name, _, _ in beside]

    def first(group, only_words):
        ranked = [(group.index(name), at) for at, name in enumerate(names)
                  if name in group and (beside[at][2] or not only_words)]
        return min(ranked)[1] if ranked else None

    def is_vector(text, words):
        value = None if words else json.loads(text)
        is_number = lambda one: isinstance(one, (int, float)) and not isinstance(one, bool)
        return isinstance(value, list) and len(value) > 16 and all(map(is_number, value))
    used = first(TITLES, True), first(AUTHORS, False)
    for at, (name, text, words) in enumerate(beside):
        known = names[at] in TIMES + CONTEXT or names[at].endswith("html")
        if at not in used and not known and not is_vector(text, words):
            yield f"{name}: {text}"


def said(value):
    """What a member of a message says, or None."""
    if isinstance(value, dict):
        value = value.get("name")
    if isinstance(value, list):
        parts = [one.get("text") if isinstance(one, dict) else one for one in value]
        objects = [one for one in value if isinstance(one, dict) and isinstance(one.get("text"), str)]
        kinds = [one["type"] for one in objects if isinstance(one.get("type"), str)]
        line = not all(kind.endswith("text") for kind in kinds)
        value = ("" if line else "\n").join(one for one in parts if isinstance(one, str))
    return value.strip() or None if isinstance(value, str) else None


def conversation(raw):
    """The numbers and texts of the messages of an item, or None where it is something else."""
    record = json.loads(raw)
    if not isinstance(record, dict) or any(name.lower() in TEXTS for name in record):
        return None
    messages = record.get("messages")
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        return None
    notes = [f"{name}: {text}" for name in "notes note comment comments summary description".split()
             if (text := said(record.get(name)))]
    found = [(0, "\n".join(notes))] if notes else []
    for number, message in enumerate(messages, 1):
        texts = (said(message.get(name)) for name in "text content message body value".split())
        if text := next((text for text in texts if text), None):
            found.append((number, text))
    return found if any(number for number, _ in found) else None


def json_record(raw):
    if raw.lstrip(" \t\r\n").startswith("{"):
        found = [(name, shown(part)) for name, _, part in pieces(raw)]
        return record([(name, *said) for name, said in found if said])
    said = shown(raw)
    return None, *[said[0] if said else ""] * 2


def cells(text, at, delimiter):
    """The cells of the row that begins at a place, and the place after it."""
    row, cell, quoted, begins = [], "", False, True
    while at < len(text):
        c, at = text[at], at + 1
        if quoted:
            if c != '"':
                cell += c
            elif text[at:at + 1] == '"':
                cell, at = cell + c, at + 1
            else:
                quoted = False
        elif c == '"' and begins:
            quoted, begins = True, False
        elif c in "\r\n":
            return row + [cell], at + (c == "\r" and text[at:at + 1] == "\n")
        elif c == delimiter:
            row, cell, begins = row + [cell], "", True
        else:
            cell, begins = cell + c, False
    return row + [cell], at


def rows(kind, text):
    head, quoted, counts = text.lstrip("\r\n"), False, {",": 0, ";": 0, "\t": 0}
    for c in head:
        if c == '"':
            quoted = not quoted
        elif not quoted and c in "\r\n":
            break
        elif not quoted and c in counts:
            counts[c] += 1
    delimiter = "\t" if kind == "tsv" else max(counts, key=counts.get)
    at, names = 0, None
    while at < len(text):
        start, (row, at) = at, cells(text, at, delimiter)
        if not any(cell.strip() for cell in row):
            continue
        if names is None:
            names = [cell.strip() for cell in row]
            continue
        named = lambda n: names[n] if n < len(names) and names[n] else f"column {n + 1}"
        yield start, record([(named(n), cell, True) for n, cell in enumerate(row)])


def records(kind, text):
    """(place, JSON, (id, text that names it, text)) of each item of a list; None for a file that is no list."""
    if kind in ("csv", "tsv"):
        return [(at, None, found) for at, found in rows(kind, text)]
    if kind in ("jsonl", "ndjson"):
        starts = [match.start() for match in re.finditer("(?m)^", text)]
        lines = [(at, text[at:].split("\n", 1)[0].strip(" \t\r")) for at in starts]
        return [(at, line, json_record(line)) for at, line in lines if line]
    try:
        value = json.loads(text)
    except ValueError:
        return None
    base = 0
    if isinstance(value, dict) and str(value.get("version")).startswith("https://jsonfeed.org/version/"):
        found = [(at, part) for name, at, part in pieces(text) if name == "items"]
        base, text = found[0] if found else (0, "null")
        value = json.loads(text)
    if isinstance(value, dict) and conversation(text):
        start = len(text) - len(text.lstrip())
        return [(start, text.strip(), json_record(text.strip()))]
    if not isinstance(value, list):
        return None
    return [(base + at, part, json_record(part)) for _, at, part in pieces(text)]


def items(kind, source, whole=False):
    """The sources of a list as {key: (line, text)}; None for a file that is no list. `whole`: conversations are items."""
    source = source[1:] if source.startswith("\ufeff") else source
    found = records(kind, source) if kind in LIST_KINDS else None
    if found is None:
        return None
    all_items, talks = {}, set()

    def unique(key):
        name, count = key, 1
        while name in all_items or name in talks:
            count += 1
            name = f"{key}~{count}"
        return name
    for at, raw, (ident, own, text) in found:
        text, line = normalize(text), source[:at].count("\n") + 1
        name = unique(ident or hashlib.sha256(normalize(own).encode()).hexdigest()[:16])
        messages = conversation(raw) if raw and not whole else None
        if not messages:
            all_items[name] = (line, text)
            continue
        for number, said_text in messages:
            all_items[unique(f"{name}#{number}")] = (line, normalize(said_text))
        talks.add(name)
    return all_items


READERS = {"html": lambda s: Html(plain(s)).page.out, "tex": lambda s: latex(plain(s)), "md": markdown}
READERS.update(htm=READERS["html"], xhtml=READERS["html"], latex=READERS["tex"], ltx=READERS["tex"])
READERS.update(markdown=markdown, txt=plain_or_rst, text=plain_or_rst, rst=lambda s: rst_body(plain(s)))
READERS["eml"] = lambda s: mail(s.encode())


def text_of(kind, source):
    """The text of a file by the end of its name, normalized."""
    source = source[1:] if source.startswith("\ufeff") else source
    return normalize(READERS.get(kind, lambda s: s)(source))


def source_of(folder, name):
    """The text of a source `path`, or `path#key` for an item of a list."""
    for sign in re.finditer("#", name):
        path, key = name[:sign.start()], name[sign.end():]
        kind = path.rpartition(".")[2].lower()
        if "." in path and kind in LIST_KINDS:
            source = (folder / path).read_bytes().decode()
            found = items(kind, source)
            # Summaries made before have a conversation as one item.
            found = found if found and key in found else items(kind, source, True)
            return found[key][1] if found and key in found else None
    data = (folder / name).read_bytes()
    if name.lower().endswith(".eml"):
        return normalize(mail(data))
    return text_of(name.rpartition(".")[2].lower(), data.decode())


def of_session(zone, messages):
    """The text of a session as a model sees it."""
    from datetime import date, datetime
    from zoneinfo import ZoneInfo

    def moment(message):
        return datetime.fromisoformat(message["ts"]).astimezone(ZoneInfo(zone))

    blocks = []
    roles = {message["role"] for message in messages}
    def day(message):
        if message["ts"]:
            return moment(message).date()
        return date.fromisoformat(message["day"]) if message.get("day") else None

    days = {day(message) for message in messages} - {None}
    before = days.pop() if len(days) == 1 else None
    for number, message in enumerate(messages, 1):
        author, role = message["author"], message["role"]
        name = author["name"] or author["address"]
        if name and role and len(roles) > 1:
            name = f"{name} ({role})"
        label = [f"m{number}", name or role]
        if day(message):
            label.append("" if day(message) == before else day(message).isoformat())
            label.append(moment(message).strftime("%H:%M") if message["ts"] else "")
            before = day(message)
        line = " ".join(part for part in label if part)
        line = "".join(" " if unicodedata.category(char) == "Cc" else char for char in line)
        blocks.append(f"[{line}]\n{message['text']}")
    return "\n\n".join(blocks)


def main(arguments):
    if arguments[:1] != ["--vectors"]:
        for name in arguments:
            kind, source = Path(name).suffix[1:].lower(), Path(name).read_bytes().decode()
            found = items(kind, source)
            if found is None:
                print(text_of(kind, source))
                continue
            for key, (line, text) in found.items():
                print(f"--- {key} (line {line})\n{text}")
        return 0
    wrong = total = 0
    for path in arguments[1:]:
        vectors = json.loads(Path(path).read_text("utf-8"))
        for vector in vectors:
            total += 1
            if "items" in vector:
                found = items(vector["kind"], vector["source"]) or {}
                computed = [[key, line, text] for key, (line, text) in found.items()]
                expected = vector["items"]
            elif "messages" in vector:
                computed = of_session(vector["zone"], vector["messages"])
                expected = vector["text"]
            else:
                computed, expected = text_of(vector["kind"], vector["source"]), vector["text"]
            if computed != expected:
                wrong += 1
                print(f"{vector['name']}\n  computed {computed!r}\n  expected {expected!r}")
    print(f"{total - wrong} of {total} vectors agree")
    return int(wrong > 0 or not total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
