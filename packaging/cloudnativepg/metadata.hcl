// parvacuum for CloudNativePG's postgres-extensions-containers.  The Dockerfile there installs
// the Debian package of PGDG and copies the files that the stage "extension" of
// ../Containerfile copies.  Untried: PGDG has no such package yet.
metadata = {
  name                     = "parvacuum"
  sql_name                 = "parvacuum"
  image_name               = "parvacuum"
  licenses                 = ["PostgreSQL"]
  shared_preload_libraries = ["parvacuum"]
  postgresql_parameters    = {}
  extension_control_path   = []
  dynamic_library_path     = []
  ld_library_path          = []
  bin_path                 = []
  env                      = {}
  auto_update_os_libs      = false
  required_extensions      = []
  create_extension         = true

  versions = {
    bookworm = {
      "18" = {
        // renovate: suite=bookworm-pgdg depName=postgresql-18-parvacuum
        package = "1.0.0-1.pgdg12+1"
        // renovate: suite=bookworm-pgdg depName=postgresql-18-parvacuum extractVersion=^(?<version>\d+\.\d+)
        sql     = "1.0"
      }
    }
    trixie = {
      "18" = {
        // renovate: suite=trixie-pgdg depName=postgresql-18-parvacuum
        package = "1.0.0-1.pgdg13+1"
        // renovate: suite=trixie-pgdg depName=postgresql-18-parvacuum extractVersion=^(?<version>\d+\.\d+)
        sql     = "1.0"
      }
    }
  }
}
