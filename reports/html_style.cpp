// CSS. Fills are named in palette.cpp.
#include "reports/html_style.h"

namespace spillway {

const char* const html_style = R"(
:root {
  color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --ink: #1b2430; --dim: #5d6877; --line: #dde2e9; --head: #eef1f5;
  --accent: #2457a6; --bad: #b3261e; --fill-ink: #ffffff;
  --ours: #2a63b8; --published: #a9b4c2;
  --parameters: #33507a; --optimizer: #5a7fae; --gradients: #8fb0d3; --kept: #c96f1e;
  --flight: #b13a72; --gathered: #71529f; --logits: #14808a; --activations: #4b8b3b;
  --workspace: #9c8516; --holes: #a3a9b2;
  --matmul: #33629f; --attention: #71529f; --elementwise: #2c8a7d; --head-op: #7d8c2f;
  --routing: #a3542e;
  --adamw: #7392ba; --cast: #9c8516; --other: #8a93a0; --wait: #d9534a; --idle: #c5cad2;
  --d2h: #c96f1e; --h2d: #b13a72; --collective: #55606e; --lane: #eef1f5;
}
@media (prefers-color-scheme: dark) { :root {
  --page: #12161c; --card: #1a2029; --ink: #e4e9f0; --dim: #9aa6b5; --line: #303946; --head: #222a35;
  --accent: #8ab4f8; --bad: #ff8a80;
  --ours: #5b8fe0; --published: #5b6675; --parameters: #4a6c9e; --optimizer: #6b90c0;
  --gradients: #86a5c8; --matmul: #4a7dc0; --holes: #6a727e; --idle: #4a525e; --lane: #252d38;
  --collective: #7d8998; --other: #7b8592;
} }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 27px; line-height: 1.2; margin: 0 0 12px; letter-spacing: -.01em; }
h2 { font-size: 20px; margin: 40px 0 4px; }
h3 { font-size: 15px; margin: 0 0 2px; }
.lead { font-size: 17px; max-width: 95ch; margin: 0 0 8px; }
.about { color: var(--dim); margin: 0 0 10px; max-width: 105ch; font-size: 14px; }
section.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 16px 18px; margin: 14px 0; }
.scroll { overflow-x: auto; } .scroll + .scroll { margin-top: 16px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 9px; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { background: var(--head); font-weight: 600; vertical-align: bottom; line-height: 1.25; }
th small { display: block; color: var(--dim); font-weight: 400; }
td.number, th.number { text-align: right; white-space: nowrap; }
td:first-child { font-weight: 600; min-width: 14em; }
tbody tr:last-child td { border-bottom: 0; }
tr.failed td { color: var(--bad); }
ul.notes { margin: 12px 0 0; padding-left: 20px; font-size: 14px; max-width: 115ch; }
ul.notes li { margin: 3px 0; overflow-wrap: anywhere; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 0; margin: 6px 0 10px;
  font-size: 13px; color: var(--dim); }
.legend svg { width: 12px; height: 12px; margin-right: 6px; vertical-align: -1px; display: inline; }
svg { display: block; width: 100%; height: auto; }
.scroll > svg, .scroll > figure > svg { min-width: 760px; }
figure { margin: 14px 0 4px; break-inside: avoid; }
figcaption { font-weight: 600; font-size: 14px; margin-bottom: 3px; }
figcaption small { font-weight: 400; font-size: 12px; color: var(--dim); margin-left: 6px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 4px 26px; }
pre { margin: 4px 0 10px; padding: 9px 12px; background: var(--head); border-radius: 6px; font-size: 12.5px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 18px; margin: 8px 0; font-size: 14px; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
details { margin: 8px 0; } summary { cursor: pointer; font-weight: 600; }
a { color: var(--accent); }
footer { color: var(--dim); font-size: 13px; margin-top: 30px; }
svg text { fill: var(--ink); font-size: 12px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
svg .end { text-anchor: end; } svg .mid { text-anchor: middle; }
svg .label { font-size: 13px; } svg .value { font-size: 12.5px; font-weight: 600; }
svg .small, svg .tick { fill: var(--dim); font-size: 11px; }
svg .bad { fill: var(--bad); font-weight: 600; }
svg .on-fill { fill: var(--fill-ink); font-size: 11px; }
svg .on-span { fill: var(--fill-ink); font-size: 10px; } svg .on-wait { fill: var(--wait); font-size: 10px; }
svg .grid, svg .tickline { stroke: var(--line); stroke-width: 1; } svg .axis { stroke: var(--dim); }
svg .tickline { stroke-dasharray: 2 3; opacity: .8; }
svg .whisker { stroke: var(--ink); stroke-width: 1.3; } svg .range { stroke: var(--published); stroke-width: 6; }
svg .lane { fill: var(--lane); } svg .span { stroke: var(--card); stroke-width: .6; }
.f-ours { fill: var(--ours); } .f-published { fill: var(--published); }
.f-parameters { fill: var(--parameters); } .f-optimizer { fill: var(--optimizer); }
.f-gradients { fill: var(--gradients); } .f-kept { fill: var(--kept); } .f-flight { fill: var(--flight); }
.f-gathered { fill: var(--gathered); } .f-logits { fill: var(--logits); }
.f-activations { fill: var(--activations); } .f-workspace { fill: var(--workspace); }
.f-holes { fill: var(--holes); } .f-matmul { fill: var(--matmul); } .f-attention { fill: var(--attention); }
.f-elementwise { fill: var(--elementwise); } .f-head { fill: var(--head-op); } .f-adamw { fill: var(--adamw); }
.f-routing { fill: var(--routing); } .f-cast { fill: var(--cast); } .f-other { fill: var(--other); } .f-idle { fill: var(--idle); }
.f-wait, svg .span.f-wait { fill: var(--wait); fill-opacity: .22; stroke: var(--wait); stroke-width: 1; }
.f-d2h { fill: var(--d2h); } .f-h2d { fill: var(--h2d); } .f-collective { fill: var(--collective); }
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  main { max-width: none; padding: 0; } section.card { border: 0; padding: 6px 0; }
  h2, h3 { break-after: avoid; } tr, pre { break-inside: avoid; } .scroll { overflow: visible; }
}
)";

}  // namespace spillway
