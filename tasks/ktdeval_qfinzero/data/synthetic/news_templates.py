"""Wordings of a company's own news. Each kind has titles, openings, and remarks that follow; in braces is what is filled in.

name, ticker, business, chief: of the company. amount: dollars. partner: another firm, invented. percent: a number. years: a number.
"""

from __future__ import annotations

from typing import NamedTuple


class Wording(NamedTuple):
    """Titles, first paragraphs, second paragraphs, keywords, and what it means for the company."""

    titles: tuple[str, ...]
    openings: tuple[str, ...]
    remarks: tuple[str, ...]
    keywords: tuple[str, ...]
    reasoning: str


PARTNERS = (
    "Oakhollow Group", "Brantmere Industries", "Sterling Fjord", "Castellane Partners", "Vantry Group", "Norfield Union",
    "Halden & Sons", "Lakemont Authority", "Prairie Crown", "Altamere Holdings", "Greywick Works", "Tidewell Corporation",
)  # fmt: skip

WORDINGS: dict[str, Wording] = {
    "contract": Wording(
        ("{name} wins {amount} contract from {partner}", "{partner} picks {name} for {amount} order"),
        ("{name} ({ticker}) said it had won a contract worth {amount} over {years} years from {partner}.",
         "{partner} has chosen {name} ({ticker}) for an order worth {amount}, the company said. Deliveries run for {years} years."),
        ("“This is the kind of work we built the company for,” said {chief}, the chief executive. First revenue is expected within "
         "two quarters.",
         "The company called it one of the larger orders in its history in {business}. Two other bidders had been in the running."),
        ("contract", "orders"), "A large order adds to future revenue."),
    "product": Wording(
        ("{name} presents new line in {business}", "{name} launches next generation in {business}"),
        ("{name} ({ticker}) presented a new line in {business} and said the first customers would have it within weeks.",
         "A new generation in {business} goes on sale this quarter, {name} ({ticker}) said."),
        ("“Our customers asked for this,” said {chief}, the chief executive. The company put development costs at {amount}.",
         "Prices start {percent}% above the previous line. Reviewers who had tried it early were mostly positive."),
        ("product launch",), "A new product may lift sales."),
    "buyback": Wording(
        ("{name} to buy back {amount} of its shares", "{name} board approves {amount} share buyback"),
        ("The board of {name} ({ticker}) has approved the purchase of up to {amount} of the company’s own shares.",
         "{name} ({ticker}) said it would buy back shares worth up to {amount} over the next {years} years."),
        ("Purchases will be paid for out of cash flow and will depend on the market, the company said.",
         "“We think our shares are the best investment we can make today,” said {chief}, the chief executive."),
        ("buyback", "capital return"), "Fewer shares raise earnings for each of them."),
    "outlook_raised": Wording(
        ("{name} raises full-year outlook", "{name} lifts forecast on stronger demand"),
        ("{name} ({ticker}) raised its outlook for the year and now expects revenue to grow {percent}% more than it had planned.",
         "Demand in {business} is running ahead of plan, {name} ({ticker}) said, and lifted its forecast for the year’s revenue by "
         "{percent}%."),
        ("“The strength is broad, and it has lasted into this month,” said {chief}, the chief executive.",
         "The company had last given a forecast with its quarterly results. It did not change its plans for investment."),
        ("guidance", "outlook"), "The company expects more revenue than before."),
    "partnership": Wording(
        ("{name} and {partner} to work together in {business}", "{name} signs partnership with {partner}"),
        ("{name} ({ticker}) and {partner} will work together in {business}, the two said in a joint statement.",
         "{partner} will offer its customers what {name} ({ticker}) makes, under an agreement over {years} years."),
        ("Financial terms were not given. People close to the talks put the value at {amount} over the term.",
         "“Each of us brings what the other lacks,” said {chief}, the chief executive of {name}."),
        ("partnership",), "The agreement opens a new channel for sales."),
    "approval": Wording(
        ("Regulator clears {name} project", "{name} wins approval it had waited for"),
        ("{name} ({ticker}) has received the approval it had applied for {years} years ago, the company said.",
         "The regulator has cleared an application of {name} ({ticker}) in {business}, without further conditions."),
        ("Analysts had put the chances at little better than even. The company expects {amount} of yearly sales from it in time.",
         "“Many people here have worked for this day,” said {chief}, the chief executive."),
        ("regulation", "approval"), "The approval removes a risk and opens a market."),
    "insider_buying": Wording(
        ("{name} chief executive buys shares", "Filing shows purchase of {name} shares by its chief"),
        ("{chief}, the chief executive of {name} ({ticker}), bought shares worth {amount} in the open market, a filing shows.",
         "A filing shows that {chief}, who leads {name} ({ticker}), has bought shares for {amount}."),
        ("It is the first such purchase in {years} years.", "Two directors reported smaller purchases in the same week."),
        ("insiders",), "Purchases by insiders are read as a sign of confidence."),
    "outlook_cut": Wording(
        ("{name} cuts full-year outlook", "{name} warns of weaker year"),
        ("{name} ({ticker}) cut its outlook for the year and now expects revenue {percent}% below its earlier plan.",
         "Orders in {business} have slowed, {name} ({ticker}) said; it now plans with {percent}% less revenue this year."),
        ("“We did not see this coming a quarter ago,” said {chief}, the chief executive. Hiring has been stopped.",
         "The company blamed customers who run down their stocks before they order again."),
        ("guidance", "outlook", "warning"), "The company expects less revenue than before."),
    "lawsuit": Wording(
        ("{partner} sues {name} for {amount}", "{name} faces {amount} claim from {partner}"),
        ("{partner} has sued {name} ({ticker}) for {amount}, accusing it of breaking an agreement in {business}.",
         "{name} ({ticker}) faces a claim of {amount} from {partner}, which says that a contract was not honoured."),
        ("The company called the claim unfounded and said it would defend itself.",
         "A first hearing is months away. The company has not set money aside for the case."),
        ("lawsuit",), "The claim may cost money and attention."),
    "breach": Wording(
        ("{name} discloses theft of customer data", "Hackers steal customer records from {name}"),
        ("{name} ({ticker}) disclosed that strangers had copied customer records from its systems.",
         "Records of customers were stolen from {name} ({ticker}) last week, the company said in a filing."),
        ("The gap has been closed, the company said. It put first costs at {amount}.",
         "“We owe our customers an apology,” said {chief}, the chief executive. Regulators have been told."),
        ("data breach", "security"), "Costs, and customers who may leave."),
    "outage": Wording(
        ("Fire stops production at {name} site", "{name} halts its largest site after fire"),
        ("A fire has stopped production at the largest site of {name} ({ticker}). Nobody was hurt, the company said.",
         "{name} ({ticker}) has stopped work at its largest site after a fire in the night."),
        ("Repairs will take weeks and cost about {amount}, part of which is insured.",
         "The company will serve customers from other sites where it can, said {chief}, the chief executive."),
        ("production", "outage"), "Lost production lowers this quarter’s revenue."),
    "chief_leaves": Wording(
        ("{name} chief executive {chief} to take leave", "{name} says {chief} will step back for now"),
        ("{chief}, the chief executive of {name} ({ticker}), will step back for personal reasons, the company said.",
         "{name} ({ticker}) said that {chief} would take leave as chief executive; the head of finance stands in."),
        ("The board gave no date for a return. Investors had tied the recent strategy in {business} to the chief.",
         "The company confirmed its plans for the year."),
        ("management",), "Uncertainty about who leads the company."),
    "recall": Wording(
        ("{name} recalls products over safety fault", "{name} starts recall after complaints"),
        ("{name} ({ticker}) is calling back products after reports of a fault, the company said.",
         "After complaints from customers {name} ({ticker}) has started a recall of one of its lines."),
        ("It put the cost at {amount}. The fault was traced to a supplier.",
         "“Safety comes before the quarter,” said {chief}, the chief executive. Replacements will be sent within {years} months."),
        ("recall",), "The recall costs money and trust."),
    "probe": Wording(
        ("Regulator opens inquiry into {name}", "{name} under investigation over its accounts"),
        ("The regulator has opened an inquiry into {name} ({ticker}), the company confirmed.",
         "{name} ({ticker}) confirmed that it has been asked for documents about how it books revenue in {business}."),
        ("The company said it was answering all questions. Such inquiries can last a year or more.",
         "“We have nothing to hide,” said {chief}, the chief executive."),
        ("regulation", "inquiry"), "The inquiry may end in penalties or restated accounts."),
    "lost_customer": Wording(
        ("{name} loses {partner} as customer", "{partner} ends contract with {name}"),
        ("{partner} will not renew its contract with {name} ({ticker}), which brought in {amount} a year.",
         "{name} ({ticker}) said that {partner}, one of its large customers, would leave at the end of the quarter."),
        ("The customer stood for about {percent}% of revenue in {business}.",
         "“We will win others,” said {chief}, the chief executive. Costs are to be cut."),
        ("customers",), "Revenue goes with the customer."),
}  # fmt: skip
