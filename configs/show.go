package configs

import (
	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs/address"
)

// YAML returns the settings as a file that Load reads back, except that secrets
// are replaced by xxxxx.
func (c Config) YAML() ([]byte, error) {
	if c.MongoDB.URI != "" {
		c.MongoDB.URI = maskMongoURI(c.MongoDB.URI)
	}
	return yaml.Dump(c, yaml.WithV3Defaults(), yaml.WithIndent(2))
}

// URL returns the address at which a daemon with these settings answers on its own machine.
func (c Config) URL() string {
	return address.URL(c.TLS.CertFile != "", c.Listen)
}
