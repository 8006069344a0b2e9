#!/bin/sh
# Everything that training needs, from Debian 12: PyTorch 1.13 (CPU), Pillow, NumPy, and the fonts of fonts.py.
set -e
apt-get install -y --no-install-recommends python3-torch python3-numpy python3-pil \
  fonts-dejavu fonts-liberation fonts-freefont-ttf fonts-noto-core fonts-roboto-unhinted fonts-open-sans fonts-lato \
  fonts-hack fonts-firacode fonts-crosextra-carlito fonts-crosextra-caladea fonts-linuxlibertine fonts-comfortaa \
  fonts-cantarell fonts-inconsolata fonts-junicode fonts-ebgaramond fonts-quicksand fonts-mononoki fonts-jura \
  fonts-play fonts-cabin fonts-urw-base35
