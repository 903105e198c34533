. ./lib/util.sh
