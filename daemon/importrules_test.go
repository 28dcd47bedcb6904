package daemon_test

import "strings"

// rules are the import rules of the repository.
func rules() []rule {
	in := func(names ...string) []string { // folders of daemon/internal
		folders := []string{}
		for _, name := range names {
			folders = append(folders, "daemon/internal/"+name)
		}
		return folders
	}
	room := func(name string, ours ...string) rule {
		return rule{folder: "daemon/internal/" + name, ours: in(ours...)}
	}
	commands := func(name string, own []string, ours ...string) rule { // a room of the program urifilter
		r := rule{folder: "daemon/urifilter/internal/" + name, ours: in(ours...)}
		for _, o := range own {
			r.ours = append(r.ours, "daemon/urifilter/internal/"+o)
		}
		return r
	}
	withSettings := func(r rule) rule { // a room that knows what filters are made with
		r.ours = append(r.ours, "configs")
		return r
	}
	asking := func(r rule) rule { // a room that calls a daemon
		r.ours = append(r.ours, "client")
		return r
	}
	api := room("api", "program/access", "program/gather", "program/problemdetail", "problem", "tally", "batch", "engine", "items", "backup", "archive", "sniff")
	api.ours = append(api.ours, "client", "configs")
	api.by = in("server", "apitest") // nothing else knows both the API and the stores
	bitmap := room("bloom")
	bitmap.onlyModules = []string{"github.com/zeebo/xxh3", "golang.org/x/sys"}
	return append(toolkitRules(), []rule{
		{folder: "magefiles", ours: []string{"provision", "configs"}, testsToo: true},
		{folder: "provision", ours: []string{"systemd", "configs"}, testsToo: true, never: []string{"daemon"}},
		{folder: "daemon", ours: []string{"configs", "client", "systemd"}, testsToo: true, never: []string{"provision", "magefiles"}},
		{folder: "configs", ours: []string{}, testsToo: true},
		{folder: "configs/strict", ours: []string{}, testsToo: true},
		{folder: "configs/fault", ours: []string{}, testsToo: true, onlyModules: []string{}},
		{folder: "configs/address", ours: []string{}, testsToo: true, onlyModules: []string{}},
		{folder: "systemd", ours: []string{}, testsToo: true, onlyModules: []string{}},
		{folder: "client", ours: []string{}, testsToo: true},
		{folder: "client", except: []string{"client/collystorage"}, onlyModules: []string{}},
		{folder: "client/collystorage", onlyModules: []string{"github.com/gocolly/colly/v2"}},
		// What docs/architecture.md says about the rooms of the daemon: no arrow points back up.
		bitmap,
		room("poisson"),
		room("table", "bloom", "poisson"),
		room("timing", "table", "bloom", "poisson"),
		room("durable"),
		{folder: "daemon/internal/filter/simhash", ours: in("poisson"), onlyModules: []string{"github.com/zeebo/xxh3"}},
		room("sniff"),
		room("journal", "bloom", "durable"),
		room("items", "bloom"),
		room("items/scan"),
		withSettings(room("canonical")),
		withSettings(room("engine", "bloom", "canonical")),
		room("kind", "engine", "durable", "timing", "bloom"),
		withSettings(room("kinds", "kind", "engine", "durable", "timing", "table", "bloom", "simhash", "poisson")),
		withSettings(room("embedded", "kinds", "kind", "engine", "journal", "durable", "timing", "bloom")),
		room("tlsdial"),
		withSettings(room("redisstore", "engine", "durable", "timing", "table", "bloom", "tlsdial")),
		room("redisstore/servers", "tlsdial"),
		room("redisstore/members", "durable"),
		room("redisstore/insync", "redisstore/members", "redisstore/servers", "engine"),
		withSettings(room("redisstore/registry", "redisstore/servers", "engine", "bloom")),
		room("redisstore/budget"),
		room("redisstore/filter", "redisstore/budget", "redisstore/insync", "redisstore/registry", "redisstore/members", "redisstore/servers", "engine"),
		room("redisstore/bitmap", "redisstore/budget", "redisstore/filter", "redisstore/insync", "redisstore/registry", "redisstore/servers", "engine", "bloom"),
		room("redisstore/forgotten", "redisstore/insync", "redisstore/servers", "bloom"),
		room("redisstore/leases", "redisstore/filter", "redisstore/forgotten", "redisstore/insync", "redisstore/servers", "engine", "bloom"),
		room("redisstore/itemset", "redisstore/filter", "redisstore/forgotten", "redisstore/leases", "redisstore/insync", "redisstore/registry", "redisstore/servers", "engine", "bloom"),
		room("redisstore/timed", "redisstore/itemset", "redisstore/filter", "redisstore/forgotten", "redisstore/registry", "redisstore/servers", "engine", "timing", "bloom"),
		room("redisstore/exact", "redisstore/itemset", "redisstore/budget", "redisstore/filter", "redisstore/forgotten", "redisstore/registry", "redisstore/servers", "engine", "table", "bloom"),
		room("stores", "engine", "bloom"),
		withSettings(room("mysqlstore", "mysqlstore/rowkey", "mysqlstore/outcome", "mysqlstore/redolog", "engine", "bloom", "tlsdial")),
		room("mysqlstore/rowkey", "bloom"),
		room("mysqlstore/outcome"),
		room("mysqlstore/redolog"),
		room("mongoconn", "tlsdial"),
		room("archive", "engine", "bloom", "mongoconn", "tlsdial"),
		room("backup", "engine", "archive", "bloom"),
		room("batch", "engine", "items", "bloom", "canonical"),
		room("tally", "batch", "engine"),
		room("problem", "batch", "engine", "items", "backup", "archive", "program/command", "program/problemdetail"),
		room("program/drain"),
		room("program/gather"),
		room("program/connlimit"),
		room("program/tlshint"),
		withSettings(asking(room("download", "fetch", "program", "durable", "mongoconn", "tlsdial", "embedded", "kinds", "engine", "batch", "items", "canonical", "bloom"))),
		withSettings(room("download/jobfile", "download", "download/script")),
		room("download/script", "download"),
		{folder: "daemon/internal/download/script/jail", ours: []string{}},
		{folder: "daemon/internal/download/script/wire", ours: []string{}, onlyModules: []string{}},
		{folder: "daemon/internal/download/scriptengine", ours: in("download", "fetch"), never: in("download/sqlite", "download/master", "download/dispatch")},
		{folder: "daemon/internal/download/browser/jail", ours: []string{}},
		{folder: "daemon/internal/download/browser/devtools", ours: []string{}, onlyModules: []string{}},
		room("download/browser/chromium", "download/browser/jail", "download/reexec"),
		room("download/reexec"),
		{folder: "daemon/internal/download/browserengine", ours: in("download", "fetch"), never: in("download/sqlite", "download/master", "download/dispatch")},
		room("download/sqlite", "download", "durable"),
		room("download/wake", "tlsdial"),
		room("download/mongodb", "download", "mongoconn", "tlsdial"),
		room("download/downloadtest", "download"),
		room("download/metered", "download"),
		room("download/errorreport", "fetch/guard"),
		room("download/campaign"),
		{folder: "daemon/internal/download/httpengine", never: in("download/sqlite", "download/mongodb", "download/master", "download/dispatch")},
		{folder: "daemon/internal/download/master", never: in("download/sqlite", "download/mongodb", "download/worker")},
		{folder: "daemon/internal/download/intake", never: in("download/sqlite", "download/mongodb", "download/worker", "download/master")},
		{folder: "daemon/internal/download/dispatch", ours: in("download"), never: in("download/sqlite", "download/mongodb")},
		{folder: "daemon/internal/download/worker", ours: in("download"), never: in("download/sqlite", "download/mongodb", "download/dispatch")},
		{folder: "daemon/internal/program", ours: []string{"systemd", "configs/address"}},
		room("powerloss", "durable"),
		room("crawl/graph"),
		withSettings(room("crawl/form", "crawl/charset", "fetch", "program/secret")),
		{folder: "daemon/internal/crawl/form/board", ours: []string{}},
		room("crawl/charset"),
		room("crawl/links", "fetch/uri"),
		room("crawl/pages", "fetch/uri", "durable"),
		withSettings(asking(rule{
			folder: "daemon/internal/crawl", ours: in("fetch", "canonical", "durable", "download/seen", "program"),
			never: in("download/worker", "download/dispatch", "download/master", "download/node", "download/sqlite", "download/mongodb"),
		})),
		room("crawl/crawltest", "crawl/graph", "crawl/pages"),
		room("crawl/frontier", "canonical", "durable"),
		{folder: "daemon/internal/crawl/warc", ours: in("durable"), onlyModules: []string{}},
		{folder: "daemon/uridownloader/internal/form", ours: in("crawl/form", "fetch", "program")},
		{folder: "daemon/uridownloader/internal/graph", ours: in("crawl/graph", "durable", "program")},
		room("fetch", "durable"), // durable for fetch/cookies, which saves them
		room("fetch/cookies", "durable"),
		room("fetch/guard"),
		room("fetch/uri"),
		room("fetch/body"),
		room("fetch/socks"),
		room("fetch/proxies"),
		room("fetch/robots"),
		api,
		room("program/access", "program/problemdetail"),
		room("api/budget"),
		room("api/coding"),
		{folder: "daemon/internal/front/http/filterjson", ours: append(in("problem", "engine", "items"), "client", "configs")},
		room("api/media", "problem", "sniff"),
		room("api/pace"),
		room("api/spool", "api/budget"),
		withSettings(asking(room("apitest", "api", "embedded", "kinds", "kind", "engine", "archive", "backup", "timing", "bloom"))),
		// The commands: their rooms know each other only through what they share.
		commands("settings", nil, "program"),
		withSettings(asking(commands("connection", nil, "problem", "program"))),
		asking(commands("commandtest", []string{"connection"}, "program")),
		asking(commands("processtest", nil, "mysqltest", "testserver", "bloom")),
		asking(commands("filter", []string{"connection"}, "sniff", "items", "program")), // items for the codes that say what is wrong with an item
		asking(commands("near", []string{"connection"}, "program")),
		withSettings(asking(commands("filters", []string{"connection"}, "program"))),
		withSettings(room("lab/sizing", "kinds", "kind", "engine", "redisstore/footprint", "durable", "timing", "bloom")),
		withSettings(room("redisstore/footprint", "redisstore/budget")),
		{folder: "daemon/internal/lab/share", ours: []string{}, onlyModules: []string{}},
		room("lab/rates", "lab/share", "bloom"),
		{folder: "daemon/internal/lab/hashes", ours: in("lab/share", "lab/plot"), onlyModules: []string{"github.com/twmb/murmur3", "github.com/zeebo/xxh3"}},
		{folder: "daemon/internal/lab/plot", ours: []string{}, onlyModules: []string{"golang.org/x/image"}},
		{folder: "daemon/internal/lab/load", ours: []string{}, onlyModules: []string{"github.com/HdrHistogram/hdrhistogram-go", "golang.org/x/sys"}},
		{folder: "daemon/internal/lab/load/lean", ours: []string{}, onlyModules: []string{}},
		asking(commands("bench", []string{"connection"}, "lab", "bloom", "items", "problem", "program")), // items for the codes that say what is wrong with a batch
		withSettings(commands("size", nil, "lab/sizing", "kind", "program")),
		withSettings(commands("mysql", []string{"settings"}, "mysqlstore", "server", "program")),
		withSettings(asking(commands("bitmap", []string{"connection", "settings"}, "server", "api/filterjson", "problem", "backup", "archive", "engine", "durable", "program"))),
	}...)
}

// toolkitRules are what docs/architecture.md says about the packages of the toolkit: no arrow
// points back up.
func toolkitRules() []rule {
	pack := func(name, ours string, shared ...string) rule {
		r := rule{folder: "provision/" + name, ours: []string{}}
		for o := range strings.FieldsSeq(ours) {
			r.ours = append(r.ours, "provision/"+o)
		}
		r.ours = append(r.ours, shared...)
		return r
	}
	return []rule{
		pack("host", ""),
		pack("crontab", ""),
		pack("yamledit", "", "configs/strict"),
		pack("inventory", "crontab", "configs", "systemd"),
		pack("step", "host"),
		pack("secret", "host step"),
		pack("diff", "secret"),
		pack("report", "secret"),
		pack("remote", "host inventory"),
		pack("fleet", "host report secret step"),
		pack("program", "host inventory step", "configs", "systemd"),
		pack("apt", "diff host step"),
		pack("pki", "host step"),
		pack("environment", "host secret step", "systemd"),
		pack("release", "host step"),
		pack("bitmap", "host step", "systemd"),
		pack("bench", "host", "systemd"),
		pack("schedule", "apt crontab diff host step", "systemd"),
		pack("redis", "apt diff host pki secret step", "configs/address"),
		pack("mysql", "apt diff host secret step", "configs/address"),
		pack("mongodb", "apt diff host pki remote/login secret step yamledit", "configs/address", "systemd"),
		pack("settings", "diff host program step yamledit", "configs"),
		pack("service", "diff host program remote/login step", "systemd"),
		pack("site", "apt environment host inventory mongodb mysql pki program redis schedule secret settings step", "configs"),
		pack("rollout", "apt bitmap environment fleet host inventory program release schedule service settings site step"),
		pack("sandbox", "host"),
	}
}
