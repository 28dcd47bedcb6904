package status

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/page"
)

// call is how a filter is used with one tool, ready to copy.
type call struct{ Tool, Text string }

const example = "https://example.com/"

// calls are those of a filter. The names of filters need no quoting in any of these languages.
func (s *Status) calls(v *page.View, f *engine.Filter) []call {
	kind, _ := configs.KindOf(f.Kind)
	at := v.Address()
	path, ask := "filter", map[string]any{"filter_typeid": f.Name, "uri_list": []string{example}}
	goMore, pyMore, uf := "", "", "UF.FILTER "+f.Name+" "+example
	if expiring, ok := f.Params.(configs.Expiring); ok && expiring.ExpireAfter() == 0 {
		ask["expire"] = 86400
		goMore, pyMore, uf = ", client.Expire(24*time.Hour)", ", expire=86400", "UF.FILTER "+f.Name+" EXPIRE 86400 "+example
	}
	if kind.Texts {
		path, ask = "near", map[string]any{"filter_typeid": f.Name, "documents": []map[string]string{{"id": example, "text": "The text of the page."}}}
	}
	body, _ := json.Marshal(ask) // texts and a number
	token, goToken := "", ""
	if v.Tokens() {
		token, goToken = ` -H "Authorization: Bearer $URIFILTER_TOKEN"`, `, client.WithToken(os.Getenv("URIFILTER_TOKEN"))`
	}
	all := []call{{"curl", fmt.Sprintf("curl%s -H 'Content-Type: application/json' \\\n  -d '%s' \\\n  '%s/api/v1/%s'", token, body, at, path)}}
	if kind.Texts {
		return append(all,
			call{"Python", fmt.Sprintf("from crawlerfilter import FilterAPIClient\n\nclient = FilterAPIClient(url=%q)\nprint(client.near(%q, [(%q, \"The text of the page.\")]))", at, f.Name, example)},
			call{"Go", fmt.Sprintf("c, err := client.New(%q%s)\n// ...\nfound, err := c.Near(ctx, %q, []client.Document{{ID: %q, Text: text}})", at, goToken, f.Name, example)})
	}
	all = append(all,
		call{"Python", fmt.Sprintf("from crawlerfilter import FilterAPIClient\n\nclient = FilterAPIClient(url=%q)\nnew = client.filter(%q, [%q]%s)", at, f.Name, example, pyMore)},
		call{"Go", fmt.Sprintf("c, err := client.New(%q%s)\n// ...\nfresh, err := c.Filter(ctx, %q, []string{%q}%s)", at, goToken, f.Name, example, goMore)})
	if host, port, err := net.SplitHostPort(s.About.RESP); err == nil {
		if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		auth := ""
		if v.Tokens() {
			auth = ` -a "$URIFILTER_TOKEN"`
		}
		n, _ := strconv.Atoi(port)
		all = append(all, call{"redis-cli", fmt.Sprintf("redis-cli -h %s -p %d%s %s", host, n, auth, uf)})
	}
	return all
}
