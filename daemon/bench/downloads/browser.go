package downloads

import (
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// browserPages is the number of pages that a run loads: one page takes as long with a browser as a
// thousand without.
const browserPages = 40

// Browser measures pages whose script requests data, loaded with a browser and, for comparison,
// without one. The processor time is that of the program alone, without its browsers.
func Browser(o Options, out *report.Part) error {
	o.report = out
	return o.with(func(string) error {
		o.Pages = browserPages
		var list strings.Builder
		for i := range browserPages {
			fmt.Fprintf(&list, "http://127.0.0.%d:%d/script/%d\n", 1+i%hosts, o.port, i)
		}
		run := func(engine string) func(int) (measured, error) {
			return func(n int) (measured, error) {
				job := "name: bench\nsetting: {delay: 0s, concurrency: 100, dispatch: 100000, download_engine: " + engine + "}\n"
				return o.runJob(perWorker, job, list.String(), nil, fmt.Sprintf("URIDOWNLOADER_BROWSER_PAGES=%d", n))
			}
		}
		all := []contestant{{"download_engine: http", run("http")}, {"download_engine: browser", run("browser")}}
		t := report.Table{head("of http")}
		for _, n := range []int{2, 4, 8} {
			if err := o.inTurn(&t, "Browser", all, n); err != nil {
				return err
			}
		}
		o.report.Table("browser", fmt.Sprintf("%d pages with a script and a request for data; at once: browser.pages", browserPages), t)
		return nil
	})
}
