package reference

import (
	"html"
	"html/template"
	"strings"
)

// Prose is a description as HTML. Of Markdown it knows what the contract uses: paragraphs, lists of one level, and code.
func Prose(text string) template.HTML {
	var out strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if paragraph = strings.TrimSpace(paragraph); paragraph == "" {
			continue
		}
		head, items := paragraph, ""
		if strings.HasPrefix(paragraph, "- ") {
			head, items = "", "\n"+paragraph
		} else if i := strings.Index(paragraph, "\n- "); i >= 0 {
			head, items = paragraph[:i], paragraph[i:]
		}
		if head != "" {
			out.WriteString("<p>" + string(inline(head)) + "</p>")
		}
		if items != "" {
			out.WriteString("<ul>")
			for item := range strings.SplitSeq(strings.TrimPrefix(items, "\n- "), "\n- ") {
				out.WriteString("<li>" + string(inline(item)) + "</li>")
			}
			out.WriteString("</ul>")
		}
	}
	return template.HTML(out.String()) //nolint:gosec // inline has escaped all that is not ours
}

// inline is a line of it: what stands in backticks is code.
func inline(text string) template.HTML {
	parts := strings.Split(html.EscapeString(text), "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "<code>" + parts[i] + "</code>"
	}
	return template.HTML(strings.Join(parts, "")) //nolint:gosec // escaped above
}
