// Page, card.
#include "reports/html_page.h"

#include "reports/html_style.h"
#include "reports/text.h"

namespace spillway {

std::string html_page(const std::string& title, const std::string& heading, const std::string& body,
                      const std::string& footer) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<title>" +
         html_escape(title) + "</title>\n<style>" + std::string(html_style) +
         "</style>\n</head>\n<body>\n<main>\n<h1>" + html_escape(heading) + "</h1>\n" + body +
         "<footer>" + html_escape(footer) + "</footer>\n</main>\n</body>\n</html>\n";
}

std::string html_card(const std::string& title, const std::string& about,
                      const std::string& content) {
  if (content.empty()) return "";
  const std::string line =
      about.empty() ? "" : "<p class=\"about\">" + html_escape(about) + "</p>\n";
  return "<section class=\"card\"><h3>" + html_escape(title) + "</h3>\n" + line + content +
         "</section>\n";
}

std::string html_scrolling(const std::string& content) {
  return content.empty() ? "" : "<div class=\"scroll\">" + content + "</div>\n";
}

std::string html_table(const MarkdownTable& table) {
  std::string rows;
  for (const std::vector<std::string>& row : table.rows) {
    const bool header = &row == &table.rows.front();
    const std::string name = header ? "th" : "td";
    std::string cells;
    for (size_t i = 0; i < row.size(); ++i)
      cells += "<" + name + (table.right[i] ? " class=\"number\">" : ">") + html_escape(row[i]) +
               "</" + name + ">";
    rows +=
        header ? "<thead><tr>" + cells + "</tr></thead>\n<tbody>\n" : "<tr>" + cells + "</tr>\n";
  }
  return html_scrolling("<table>" + rows + "</tbody></table>");
}

}  // namespace spillway
