// The frame of an HTML report: one self-contained file, and titled cards in it.
#pragma once

#include <string>

#include "reports/markdown_table.h"

namespace spillway {

// `heading` and `footer` are texts, `body` is HTML.
std::string html_page(const std::string& title, const std::string& heading, const std::string& body,
                      const std::string& footer);

// A titled card; nothing when there is no content.
std::string html_card(const std::string& title, const std::string& about,
                      const std::string& content);

std::string html_scrolling(const std::string& content);

// The same table as in Markdown; its cells are texts, not escaped.
std::string html_table(const MarkdownTable& table);

}  // namespace spillway
