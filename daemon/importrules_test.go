package daemon_test

// rules are the import rules of the repository: which rooms stand on which. A room may import
// those that its line names, and nothing points back up. Inside a room packages do as they like.
func rules() []rule {
	room := func(name string, ours ...string) rule {
		for i, folder := range ours {
			if folder != "configs" && folder != "client" && folder != "systemd" {
				ours[i] = "daemon/internal/" + folder
			}
		}
		return rule{folder: "daemon/internal/" + name, ours: append([]string{}, ours...)}
	}
	return []rule{
		// The house.
		{folder: "magefiles", ours: []string{"provision", "configs", "systemd"}, testsToo: true},
		{folder: "provision", ours: []string{"systemd", "configs"}, testsToo: true, never: []string{"daemon"}},
		{folder: "daemon", ours: []string{"configs", "client", "systemd"}, testsToo: true, never: []string{"provision", "magefiles"}},
		{folder: "client", ours: []string{}, testsToo: true},
		{folder: "client", except: []string{"client/collystorage"}, onlyModules: []string{}},
		{folder: "client/collystorage", onlyModules: []string{"github.com/gocolly/colly/v2"}},
		{folder: "configs", ours: []string{}, testsToo: true},
		{folder: "systemd", ours: []string{}, testsToo: true, onlyModules: []string{}},

		// The programs, from the top down. Their commands may use any room but the test kits.
		{folder: "daemon/internal/testkit", by: []string{"daemon/bench", "daemon/urifilter/internal/commandtest", "daemon/urifilter/internal/processtest"}},
		room("server", "front", "archive", "store", "filter", "program", "disk", "configs"),
		room("front", "archive", "filter", "program", "configs", "client"), // and no store
		room("crawl", "download", "fetch", "filter", "program", "disk", "configs", "client"),
		room("download", "fetch", "archive", "store", "filter", "program", "disk", "configs", "client"),
		room("lab", "store", "filter", "disk", "configs", "client"),
		room("archive", "filter", "program"),
		room("store", "filter", "program", "disk", "configs"), // and no front
		room("fetch", "disk"),
		room("filter", "disk", "configs"),
		room("program", "configs", "systemd"),
		room("disk"),

		// What others take for themselves must stay small.
		{folder: "daemon/internal/filter/bloom", onlyModules: []string{"github.com/zeebo/xxh3", "golang.org/x/sys"}},
		{folder: "daemon/internal/download/script/jail", ours: []string{}},
		{folder: "daemon/internal/download/browser/jail", ours: []string{}},
	}
}
