"""A small grammar of English sentences and their Chinese translations.

The two languages share no word order, no articles and no tenses, so a translator has to learn what stands where:
the measure word that the noun asks for (两只猫, 三本书), the place word that closes a place (在垫子上, 在桌子下面),
了 for what is done, time before the deed. Every sentence has one translation.

"The cat sat on the mat" is held out: its words are learnt, the sentence is not, in no spelling.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from regard.training.data.pairs import Pair, Pairs

CAT = ("The cat sat on the mat", "猫坐在垫子上")


@dataclass(frozen=True)
class Noun:
    """A thing that can be counted: with its plural and the measure word that Chinese counts it with."""

    one: str
    many: str
    chinese: str
    measure: str
    person: bool = False


def _nouns(text: str, person: bool = False) -> list[Noun]:
    return [Noun(one, many, chinese, measure, person) for one, many, chinese, measure in _table(text)]


def _table(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().split("\n")]


ANIMALS = _nouns("""
cat cats 猫 只
dog dogs 狗 只
bird birds 鸟 只
rabbit rabbits 兔子 只
horse horses 马 匹
cow cows 牛 头
tiger tigers 老虎 只
monkey monkeys 猴子 只
mouse mice 老鼠 只
duck ducks 鸭子 只
sheep sheep 羊 只
pig pigs 猪 头
""")
PEOPLE = _nouns(
    """
teacher teachers 老师 位
doctor doctors 医生 位
student students 学生 个
child children 孩子 个
boy boys 男孩 个
girl girls 女孩 个
friend friends 朋友 个
farmer farmers 农民 个
worker workers 工人 个
""",
    person=True,
)
THINGS = _nouns("""
book books 书 本
letter letters 信 封
apple apples 苹果 个
flower flowers 花 朵
painting paintings 画 幅
newspaper newspapers 报纸 份
cup cups 杯子 个
hat hats 帽子 顶
shirt shirts 衬衫 件
umbrella umbrellas 雨伞 把
ball balls 球 个
bicycle bicycles 自行车 辆
key keys 钥匙 把
ticket tickets 票 张
watch watches 手表 块
coat coats 大衣 件
pen pens 笔 支
map maps 地图 张
""")
SURFACES = _nouns("""
mat mats 垫子 块
table tables 桌子 张
chair chairs 椅子 把
bed beds 床 张
sofa sofas 沙发 张
carpet carpets 地毯 块
bench benches 长椅 张
bridge bridges 桥 座
""")
HOLLOWS = _nouns("""
box boxes 箱子 个
basket baskets 篮子 个
room rooms 房间 个
garden gardens 花园 个
kitchen kitchens 厨房 个
car cars 汽车 辆
""")
BUILDINGS = _nouns("""
school schools 学校 所
park parks 公园 个
library libraries 图书馆 个
hospital hospitals 医院 家
shop shops 商店 家
station stations 车站 个
""")

# What can be said of whom; a quality without 的 stands close to its noun: 小猫, 新书.
OF_LIVING = {"small": "小", "big": "大", "clever": "聪明的", "lovely": "可爱的", "quiet": "安静的", "brave": "勇敢的"}
OF_ANIMALS = {"black": "黑色的", "white": "白色的", "fat": "胖", **OF_LIVING}
OF_PEOPLE = {"young": "年轻的", "kind": "善良的", **{k: v for k, v in OF_LIVING.items() if k not in ("small", "big")}}
OF_THINGS = {
    "new": "新", "old": "旧", "small": "小", "big": "大", "red": "红色的", "blue": "蓝色的", "green": "绿色的",
    "expensive": "昂贵的", "beautiful": "漂亮的",
}  # fmt: skip

IS = {"tired": "累", "hungry": "饿", "happy": "高兴", "busy": "忙", "thirsty": "渴", "thin": "瘦", "quiet": "安静"}
IS_MORE = {"bigger": "大", "smaller": "小", "faster": "快", "stronger": "强壮", "cleverer": "聪明"}
COLOURS = {"black": "黑色", "white": "白色", "brown": "棕色", "grey": "灰色"}
COLOURS_OF_THINGS = {"red": "红色", "blue": "蓝色", "green": "绿色", "yellow": "黄色"}

NUMBERS = {"two": "两", "three": "三", "four": "四", "five": "五", "six": "六", "ten": "十"}
OWNERS = {"my": "我的", "your": "你的", "his": "他的", "her": "她的", "our": "我们的", "their": "他们的"}
PRONOUNS = {"I": "我", "you": "你", "he": "他", "she": "她", "we": "我们", "they": "他们"}

ON = {"on": "上", "under": "下面", "behind": "后面", "in front of": "前面", "beside": "旁边"}
IN = {"in": "里", "behind": "后面", "beside": "旁边", "near": "附近"}
AT = {"in": "里", "near": "附近", "behind": "后面", "in front of": "前面"}

# Postures go before 在 (坐在垫子上), doings after the place (在花园里唱歌).
Verb = tuple[str, str, str, str]  # past, bare, -ing, Chinese


def _verbs(text: str) -> list[Verb]:
    return [(past, bare, ing, chinese) for past, bare, ing, chinese in _table(text)]


POSTURES = _verbs("""
sat sit sitting 坐
stood stand standing 站
lay lie lying 躺
slept sleep sleeping 睡
""")
DOINGS = _verbs("""
sang sing singing 唱歌
danced dance dancing 跳舞
ran run running 跑步
worked work working 工作
waited wait waiting 等
played play playing 玩
""")
# Deeds take a thing, and 了 when they are done.
DEEDS = _verbs("""
bought buy buying 买
sold sell selling 卖
found find finding 找到
saw see seeing 看见
lost lose losing 弄丢
took take taking 拿走
drew draw drawing 画
brought bring bringing 带来
""")
DONE = {"yesterday": "昨天", "today": "今天", "last week": "上周", "this morning": "今天早上"}
TO_COME = {"tomorrow": "明天", "next week": "下周", "tonight": "今晚"}

Said = tuple[str, str]


@dataclass(frozen=True)
class Someone:
    """A subject: in English, in Chinese, and whether English treats it as one, many, or "I"."""

    english: str
    chinese: str
    number: str

    def has(self, one: str, many: str, i: str | None = None) -> str:
        """The form of an English verb that goes with this subject."""
        return one if self.number == "one" else (i or many) if self.number == "I" else many

    @property
    def be(self) -> str:
        """is, are or am."""
        return self.has("is", "are", "am")


def _the(rng: random.Random, noun: Noun, qualities: dict[str, str]) -> Someone:
    """A noun with what stands before it. A definite noun is bare in Chinese; 的 is not said twice."""
    quality, quality_zh = rng.choice([("", ""), ("", ""), *qualities.items()])
    kind = rng.choice(
        ["the", "the", "the", "a", "this", "owner", "owner", "number", "these"] + ["plural"] * noun.person
    )
    word = f"{quality} {noun.one}".strip()
    words = f"{quality} {noun.many}".strip()
    name = quality_zh + noun.chinese
    if kind == "the":
        return Someone(f"the {word}", name, "one")
    if kind == "plural":
        return Someone(f"the {words}", f"{name}们", "many")
    if kind == "a":
        return Someone(f"{'an' if word[0] in 'aeiou' else 'a'} {word}", f"一{noun.measure}{name}", "one")
    if kind == "this":
        english, chinese = rng.choice([("this", "这"), ("that", "那")])
        return Someone(f"{english} {word}", f"{chinese}{noun.measure}{name}", "one")
    if kind == "owner":
        english, chinese = rng.choice(list(OWNERS.items()))
        return Someone(f"{english} {word}", (chinese[:-1] if quality_zh.endswith("的") else chinese) + name, "one")
    if kind == "number":
        english, chinese = rng.choice(list(NUMBERS.items()))
        return Someone(f"{english} {words}", f"{chinese}{noun.measure}{name}", "many")
    english, chinese = rng.choice([("these", "这些"), ("those", "那些"), ("many", "很多")])
    return Someone(f"{english} {words}", chinese + name, "many")


def _animal(rng: random.Random) -> Someone:
    return _the(rng, rng.choice(ANIMALS), OF_ANIMALS)


def _person(rng: random.Random) -> Someone:
    if rng.random() < 0.25:
        english, chinese = rng.choice(list(PRONOUNS.items()))
        return Someone(english, chinese, {"I": "I", "he": "one", "she": "one"}.get(english, "many"))
    return _somebody(rng)


def _somebody(rng: random.Random) -> Someone:
    noun = rng.choice(PEOPLE)
    grown = noun.one not in ("child", "boy", "girl")  # 年轻的孩子 is not said
    return _the(rng, noun, {k: v for k, v in OF_PEOPLE.items() if grown or k != "young"})


def _living(rng: random.Random) -> Someone:
    return rng.choice([_animal, _person])(rng)


def _thing(rng: random.Random) -> Said:
    """An object. What is known to both speakers is 那 in Chinese: the book, 那本书."""
    noun = rng.choice(THINGS)
    thing = _the(rng, noun, OF_THINGS)
    if thing.english.startswith("the "):
        return thing.english, f"那{noun.measure}{thing.chinese}"
    return thing.english, thing.chinese


def _place(rng: random.Random) -> Said:
    """Where: English before it, Chinese after it."""
    nouns, words = rng.choice([(SURFACES, ON), (SURFACES, ON), (HOLLOWS, IN), (BUILDINGS, AT)])
    noun, (english, chinese) = rng.choice(nouns), rng.choice(list(words.items()))
    before, before_zh = rng.choice(
        [("the", ""), ("the", ""), *OWNERS.items()] if nouns is not BUILDINGS else [("the", "")]
    )
    return f"{english} {before} {noun.one}", f"{before_zh}{noun.chinese}{chinese}"


def _sat(rng: random.Random) -> Said:
    who, (where, where_zh), (past, bare, ing, pose_zh) = _living(rng), _place(rng), rng.choice(POSTURES)
    return rng.choice([
        (f"{who.english} {past} {where}", f"{who.chinese}{pose_zh}在{where_zh}"),
        (f"{who.english} {past} {where}", f"{who.chinese}{pose_zh}在{where_zh}"),
        (f"{who.english} {who.be} {ing} {where}", f"{who.chinese}正{pose_zh}在{where_zh}"),
        (f"{who.english} did not {bare} {where}", f"{who.chinese}没有{pose_zh}在{where_zh}"),
        (f"{who.english} {who.has('wants', 'want')} to {bare} {where}", f"{who.chinese}想{pose_zh}在{where_zh}"),
    ])  # fmt: skip


def _is_at(rng: random.Random) -> Said:
    who, (where, where_zh) = _living(rng), _place(rng)
    return rng.choice([
        (f"{who.english} {who.be} {where}", f"{who.chinese}在{where_zh}"),
        (f"{who.english} {who.be} not {where}", f"{who.chinese}不在{where_zh}"),
        (f"{who.be} {who.english} {where}?", f"{who.chinese}在{where_zh}吗？"),
        (f"where {who.be} {who.english}?", f"{who.chinese}在哪里？"),
    ])  # fmt: skip


def _there_is(rng: random.Random) -> Said:
    noun, (where, where_zh) = rng.choice(ANIMALS + PEOPLE + THINGS), _place(rng)
    if rng.random() < 0.5:
        article = "an" if noun.one[0] in "aeiou" else "a"
        return f"there is {article} {noun.one} {where}", f"{where_zh}有一{noun.measure}{noun.chinese}"
    count, count_zh = rng.choice(list(NUMBERS.items()))
    return f"there are {count} {noun.many} {where}", f"{where_zh}有{count_zh}{noun.measure}{noun.chinese}"


def _did_at(rng: random.Random) -> Said:
    who, (where, where_zh), (_, bare, ing, doing_zh) = _person(rng), _place(rng), rng.choice(DOINGS)
    return rng.choice([
        (f"{who.english} {who.be} {ing} {where}", f"{who.chinese}正在{where_zh}{doing_zh}"),
        (f"{who.english} {who.has('wants', 'want')} to {bare} {where}", f"{who.chinese}想在{where_zh}{doing_zh}"),
        (f"{who.english} will {bare} {where}", f"{who.chinese}会在{where_zh}{doing_zh}"),
        (f"{who.english} did not {bare} {where}", f"{who.chinese}没有在{where_zh}{doing_zh}"),
    ])  # fmt: skip


def _did(rng: random.Random) -> Said:
    who, (what, what_zh), (past, bare, _, deed_zh) = _person(rng), _thing(rng), rng.choice(DEEDS)
    done, done_zh = rng.choice(list(DONE.items()))
    to_come, to_come_zh = rng.choice(list(TO_COME.items()))
    return rng.choice([
        (f"{who.english} {past} {what}", f"{who.chinese}{deed_zh}了{what_zh}"),
        (f"{who.english} {past} {what} {done}", f"{who.chinese}{done_zh}{deed_zh}了{what_zh}"),
        (f"{who.english} will {bare} {what}", f"{who.chinese}会{deed_zh}{what_zh}"),
        (f"{who.english} will {bare} {what} {to_come}", f"{who.chinese}{to_come_zh}会{deed_zh}{what_zh}"),
        (f"did {who.english} {bare} {what}?", f"{who.chinese}{deed_zh}了{what_zh}吗？"),
    ])  # fmt: skip


def _has(rng: random.Random) -> Said:
    who, (what, what_zh), thing = _person(rng), _thing(rng), rng.choice(THINGS)
    a_thing = f"an {thing.one}" if thing.one[0] in "aeiou" else f"a {thing.one}"
    count, count_zh = rng.choice(list(NUMBERS.items()))
    counted_zh = f"{thing.measure}{thing.chinese}"
    has = who.has("has", "have")
    return rng.choice([
        (f"{who.english} {who.has('likes', 'like')} {what}", f"{who.chinese}喜欢{what_zh}"),
        (f"{who.english} {who.has('needs', 'need')} {what}", f"{who.chinese}需要{what_zh}"),
        (f"{who.english} {has} {count} {thing.many}", f"{who.chinese}有{count_zh}{counted_zh}"),
        (f"{who.english} {has} {a_thing}", f"{who.chinese}有一{counted_zh}"),
        (f"{who.english} {who.has('does', 'do')} not have {a_thing}", f"{who.chinese}没有{thing.chinese}"),
    ])  # fmt: skip


def _gave(rng: random.Random) -> Said:
    who, whom, (what, what_zh) = _person(rng), _somebody(rng), _thing(rng)
    return rng.choice([
        (f"{who.english} gave {whom.english} {what}", f"{who.chinese}给了{whom.chinese}{what_zh}"),
        (f"{who.english} will give {whom.english} {what}", f"{who.chinese}会给{whom.chinese}{what_zh}"),
    ])  # fmt: skip


def _went(rng: random.Random) -> Said:
    who, where = _person(rng), rng.choice(BUILDINGS)
    (done, done_zh), (to_come, to_come_zh) = rng.choice(list(DONE.items())), rng.choice(list(TO_COME.items()))
    return rng.choice([
        (f"{who.english} went to the {where.one} {done}", f"{who.chinese}{done_zh}去了{where.chinese}"),
        (f"{who.english} went to the {where.one}", f"{who.chinese}去了{where.chinese}"),
        (f"{who.english} will go to the {where.one} {to_come}", f"{who.chinese}{to_come_zh}会去{where.chinese}"),
        (f"{who.english} {who.has('wants', 'want')} to go to the {where.one}", f"{who.chinese}想去{where.chinese}"),
    ])  # fmt: skip


def _is(rng: random.Random) -> Said:
    who, (how, how_zh) = _living(rng), rng.choice(list(IS.items()))
    return rng.choice([
        (f"{who.english} {who.be} {how}", f"{who.chinese}很{how_zh}"),
        (f"{who.english} {who.be} extremely {how}", f"{who.chinese}非常{how_zh}"),
        (f"{who.english} {who.be} not {how}", f"{who.chinese}不{how_zh}"),
        (f"{who.be} {who.english} {how}?", f"{who.chinese}{how_zh}吗？"),
    ])  # fmt: skip


def _is_more(rng: random.Random) -> Said:
    who, other, (more, more_zh) = _animal(rng), _animal(rng), rng.choice(list(IS_MORE.items()))
    return f"{who.english} {who.be} {more} than {other.english}", f"{who.chinese}比{other.chinese}{more_zh}"


def _colour(rng: random.Random) -> Said:
    which, colours = rng.choice([(ANIMALS, COLOURS), (THINGS, COLOURS_OF_THINGS)])
    what, (colour, colour_zh) = _the(rng, rng.choice(which), {}), rng.choice(list(colours.items()))
    return rng.choice([
        (f"{what.english} {what.be} {colour}", f"{what.chinese}是{colour_zh}的"),
        (f"{what.english} {what.be} not {colour}", f"{what.chinese}不是{colour_zh}的"),
        (f"{what.be} {what.english} {colour}?", f"{what.chinese}是{colour_zh}的吗？"),
    ])  # fmt: skip


def _both(rng: random.Random) -> Said:
    one, other, (where, where_zh) = *rng.sample(ANIMALS + PEOPLE, 2), _place(rng)
    past, _, _, pose_zh = rng.choice(POSTURES)
    pair, pair_zh = f"the {one.one} and the {other.one}", f"{one.chinese}和{other.chinese}"
    return rng.choice(
        [
            (f"{pair} {past} {where}", f"{pair_zh}{pose_zh}在{where_zh}"),
            (f"{pair} are {where}", f"{pair_zh}在{where_zh}"),
        ]
    )


PATTERNS: tuple[Callable[[random.Random], Said], ...] = (
    _sat, _sat, _sat, _is_at, _is_at, _there_is, _did_at, _did, _did, _has, _gave, _went, _is, _is_more, _colour, _both,
)  # fmt: skip


def phrase_pairs(*, seed: int = 0, train: int = 40_000, valid: int = 500, test: int = 2000) -> Pairs:
    """So many distinct sentences of each kind, drawn from the grammar."""
    rng = random.Random(seed)
    found: dict[str, Pair] = {}
    while len(found) < train + valid + test:
        english, chinese = rng.choice(PATTERNS)(rng)
        stop = not english.endswith("?") and rng.random() < 0.3
        key = english.lower()
        # A sentence comes once, with a full stop or without; and nothing else may translate to the held-out one.
        if key not in found and chinese != CAT[1]:
            english = english[0].upper() + english[1:]
            found[key] = (f"{english}.", f"{chinese}。") if stop else (english, chinese)
    pairs = list(found.values())
    rng.shuffle(pairs)
    return Pairs(
        "phrases",
        train=tuple(pairs[valid + test :]),
        valid=tuple(pairs[:valid]),
        test=(CAT, *pairs[valid : valid + test - 1]),
        tokenizer="words",
        lexicon=lexicon(),
        show=(CAT[0], *(source for source, _ in pairs[valid : valid + 7])),
    )


def lexicon() -> tuple[str, ...]:
    """The Chinese words of the grammar that have more than one character."""
    nouns = ANIMALS + PEOPLE + THINGS + SURFACES + HOLLOWS + BUILDINGS
    tables = (
        OF_ANIMALS,
        OF_PEOPLE,
        OF_THINGS,
        IS,
        IS_MORE,
        COLOURS,
        COLOURS_OF_THINGS,
        PRONOUNS,
        ON,
        IN,
        AT,
        DONE,
        TO_COME,
    )
    words = [noun.chinese for noun in nouns] + [word.removesuffix("的") for table in tables for word in table.values()]
    words += [verb[-1] for verb in (*POSTURES, *DOINGS, *DEEDS)] + [
        "没有",
        "喜欢",
        "需要",
        "哪里",
        "这些",
        "那些",
        "很多",
        "非常",
    ]
    return tuple(sorted({word for word in words if len(word) > 1}))
